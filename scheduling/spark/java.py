"""Java that the driver compiles and runs: one call from Python in place of one for each partition.

Spark has Janino for its code generation, so nothing is shipped. Janino knows no generics. Each text
is the body of a class with a method ``run``.
"""

from __future__ import annotations

__all__ = ["HOSTS", "PIN", "WAIT"]

PIN = """
import org.apache.spark.Partition;
import org.apache.spark.rdd.*;
import scala.Option;

public CoalescedRDD run(RDD parent, String where) throws Exception {
    String[] at = where.split("\\n", -1);
    Option nowhere = Option.empty();
    CoalescedRDD found = new CoalescedRDD(parent, at.length, nowhere, parent.elementClassTag());
    found.setName("placed");
    Partition[] kept = found.partitions();
    for (int i = 0; i < at.length; i++) {
        Option one = at[i].isEmpty() ? nowhere : Option.apply(at[i]);
        kept[i] = new CoalescedRDDPartition(i, parent, new int[] {i}, one);
    }
    return found;
}
"""
"""An RDD of the same partitions; line i of ``where`` is the location of partition i, or empty."""

HOSTS = """
import org.apache.spark.Partition;
import org.apache.spark.rdd.RDD;

public String run(RDD parent) throws Exception {
    StringBuilder found = new StringBuilder();
    Partition[] all = parent.partitions();
    for (int i = 0; i < all.length; i++) {
        if (i > 0) found.append("\\n");
        found.append(parent.preferredLocations(all[i]).mkString("\\t"));
    }
    return found.toString();
}
"""
"""The preferred locations of an RDD: one line a partition, separated by tabs."""

WAIT = """
import java.util.*;
import org.apache.spark.*;
import org.apache.spark.scheduler.*;
import scala.collection.mutable.Buffer;
import scala.jdk.javaapi.CollectionConverters;

public int run(SparkContext context, int rdd, int millis) throws Exception {
    TaskSchedulerImpl scheduler = (TaskSchedulerImpl) context.taskScheduler();
    Object backend = scheduler.backend();
    ExecutorAllocationClient executors = null;
    if (backend instanceof ExecutorAllocationClient) executors = (ExecutorAllocationClient) backend;
    List running;
    synchronized (scheduler) {
        Buffer queue = (Buffer) scheduler.rootPool().getSortedTaskSetQueue();
        running = new ArrayList(CollectionConverters.asJava(queue));
    }
    int found = 0;
    boolean changed = false;
    for (int k = 0; k < running.size(); k++) {
        TaskSetManager set = (TaskSetManager) running.get(k);
        try {
            if (!context.statusStore().lastStageAttempt(set.taskSet().stageId())
                    .rddIds().contains(Integer.valueOf(rdd))) continue;
        } catch (NoSuchElementException notListedYet) {
            continue;
        }
        synchronized (scheduler) {
            if (set.isZombie()) continue;
            found++;
            scala.collection.mutable.Map at = (scala.collection.mutable.Map)
                set.pendingTasks().forExecutor();
            Map pinned = CollectionConverters.asJava(at);
            List free = CollectionConverters.asJava((Buffer) set.pendingTasks().noPrefs());
            Object[] names = pinned.keySet().toArray();
            boolean lost = false;
            for (int i = 0; i < names.length; i++) {
                String name = (String) names[i];
                if (scheduler.isExecutorAlive(name)
                        && (executors == null || executors.isExecutorActive(name))) continue;
                free.addAll(CollectionConverters.asJava((Buffer) pinned.remove(name)));
                lost = true;
            }
            if (lost) set.recomputeLocality();
            Object[] levels = set.myLocalityLevels();
            long[] waits = new long[levels.length];
            for (int i = 0; i < levels.length; i++) {
                waits[i] = levels[i].toString().equals("PROCESS_LOCAL") ? (long) millis : 0L;
            }
            lost |= !Arrays.equals(waits, set.localityWaits());
            set.localityWaits_$eq(waits);
            changed |= lost;
        }
    }
    if (changed) scheduler.backend().reviveOffers();
    return found;
}
"""
"""Sets how long the running stages of an RDD wait for executors, and frees tasks of lost ones."""
