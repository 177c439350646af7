"""Java that the driver compiles and runs: one call from Python in place of one for each partition.

Spark has Janino for its code generation, so nothing is shipped. Janino knows no generics. Each text
is the method ``run`` of a class, below :data:`IMPORTS`; a text that a version of Spark cannot
compile leaves the others.
"""

from __future__ import annotations

__all__ = ["HOSTS", "IMPORTS", "PIN", "WAIT"]

IMPORTS = """
import java.util.*;
import org.apache.spark.*;
import org.apache.spark.rdd.*;
import org.apache.spark.scheduler.*;
import scala.Option;
import scala.collection.mutable.Buffer;
import scala.jdk.javaapi.CollectionConverters;
"""

PIN = """
public CoalescedRDD run(RDD parent, String where) throws Exception {
    String[] at = where.split("\\n", -1);
    Option nowhere = Option.empty();
    CoalescedRDD found = new CoalescedRDD(parent, at.length, nowhere, parent.elementClassTag());
    found.setName("placed");
    for (int i = 0; i < at.length; i++) {
        Option one = at[i].isEmpty() ? nowhere : Option.apply(at[i]);
        found.partitions()[i] = new CoalescedRDDPartition(i, parent, new int[] {i}, one);
    }
    return found;
}
"""
"""An RDD of the same partitions; line i of ``where`` is the location of partition i, or empty."""

HOSTS = """
public String run(RDD parent) throws Exception {
    StringJoiner found = new StringJoiner("\\n");
    for (Partition one : parent.partitions()) {
        found.add(parent.preferredLocations(one).mkString("\\t"));
    }
    return found.toString();
}
"""
"""The preferred locations of an RDD: one line a partition, separated by tabs."""

WAIT = """
public int run(SparkContext context, int rdd, int millis) throws Exception {
    TaskSchedulerImpl scheduler = (TaskSchedulerImpl) context.taskScheduler();
    Object backend = scheduler.backend();
    boolean tells = backend instanceof ExecutorAllocationClient;
    List running;
    synchronized (scheduler) {
        Buffer queue = (Buffer) scheduler.rootPool().getSortedTaskSetQueue();
        running = new ArrayList(CollectionConverters.asJava(queue));
    }
    int found = 0;
    boolean changed = false;
    for (Object one : running) {
        TaskSetManager set = (TaskSetManager) one;
        try {
            if (!context.statusStore().lastStageAttempt(set.taskSet().stageId())
                    .rddIds().contains(Integer.valueOf(rdd))) continue;
        } catch (NoSuchElementException notListedYet) {
            continue;
        }
        synchronized (scheduler) {
            if (set.isZombie()) continue;
            found++;
            scala.collection.mutable.Map pinned = set.pendingTasks().forExecutor();
            List free = CollectionConverters.asJava((Buffer) set.pendingTasks().noPrefs());
            boolean lost = false;
            for (Object at : CollectionConverters.asJava(pinned).keySet().toArray()) {
                String name = (String) at;
                if (scheduler.isExecutorAlive(name) && (!tells
                        || ((ExecutorAllocationClient) backend).isExecutorActive(name))) continue;
                free.addAll(CollectionConverters.asJava((Buffer) pinned.remove(name).get()));
                lost = true;
            }
            if (lost) set.recomputeLocality();
            Object[] levels = set.myLocalityLevels();
            long[] waits = new long[levels.length];
            for (int i = 0; i < levels.length; i++) {
                waits[i] = levels[i].toString().equals("PROCESS_LOCAL") ? (long) millis : 0L;
            }
            changed |= lost || !Arrays.equals(waits, set.localityWaits());
            set.localityWaits_$eq(waits);
        }
    }
    if (changed) scheduler.backend().reviveOffers();
    return found;
}
"""
"""Sets how long the running stages of an RDD wait for executors, and frees tasks of lost ones."""
