// Search for pages that are opened as files: no browser starts a Worker there, so the theme's runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inside = frame.contentWindow
      this.inside.document.open() // Firefox would replace a frame's first document later, with all that is in it
      this.inside.document.write("<body>")
      this.inside.document.close()
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", {data}))
      const script = this.inside.document.createElement("script")
      script.src = new URL(url, document.baseURI)
      this.started = new Promise(resolve => { script.onload = resolve })
      this.inside.document.body.append(script)
    }

    postMessage(data) {
      this.started.then(() => this.inside.dispatchEvent(new MessageEvent("message", {data})))
    }
  }
}
