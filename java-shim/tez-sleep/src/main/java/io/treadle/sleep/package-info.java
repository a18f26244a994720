/**
 * Edges and vertex managers of the DAGs that experiments run: tasks that only take time and ask for given resources.
 * Threads of Tez's call everything; no locks. Two of the classes differ in their superclass alone, which Tez
 * demands.
 */
package io.treadle.sleep;
