package io.treadle.shim.metrics;

/** The bean {@code Hadoop:service=ResourceManager,name=TreadlePlacements}. */
public interface PlacementsMXBean {
  /** A JSON object: {@code {"application_...": {"treadle": n, "native": n}}}, of the last 1,000 applications. */
  String getPlacements();
}
