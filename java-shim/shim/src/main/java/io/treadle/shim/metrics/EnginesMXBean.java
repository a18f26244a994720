package io.treadle.shim.metrics;

/** The bean {@code Hadoop:service=ResourceManager,name=TreadleEngines}, where there are several engines. */
public interface EnginesMXBean {
  /**
   * A JSON object: {@code {"engines": {NAME: {"entry", "lives", "served_by", "applications"}}, "applications":
   * {"application_...": [home, owner]}}}.
   */
  String getEngines();
}
