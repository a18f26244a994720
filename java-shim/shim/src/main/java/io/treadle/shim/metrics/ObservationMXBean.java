package io.treadle.shim.metrics;

/** The bean {@code Hadoop:service=ResourceManager,name=TreadleObservation}. */
public interface ObservationMXBean {
  /** A JSON object: how proposals compare with what the stock scheduler does, in mode {@code observe_only}. */
  String getObservation();
}
