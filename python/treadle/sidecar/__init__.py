"""The process next to the ResourceManager: a server for one caller, a session, start-up and end."""
