package bsjoin.jvm.storage;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedWriter;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Paths;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkEnv;

/**
 * The Python process that copies files of remote tables to this host, started at its first use; see
 * {@code bsjoin/runtimes/python/worker/copy_service.py}. It ends with this process. Under Spark Connect
 * each session loads its own copy of this class: all of them use one process.
 */
public final class CopyService {
  static final ObjectMapper JSON = new ObjectMapper();

  private static final String MODULE = "bsjoin.runtimes.python.worker.copy_service";
  private static final String EXECUTOR_ENV = "spark.executorEnv.";
  private static final String PYTHONPATH = "PYTHONPATH";
  private static final String PLACE = "bsjoin.copies."; // among the properties of the JVM

  private final List<String> commands;
  private final Process[] process; // null if it does not run; guarded by the array

  /** The service of a Python; the commands after the first are for where that is not there. */
  CopyService(List<String> commands) {
    this.commands = commands;
    process =
        (Process[])
            System.getProperties().computeIfAbsent(PLACE + commands, any -> new Process[1]);
  }

  /**
   * Answer a request; the process is started again, once, if it has ended.
   *
   * @throws IllegalStateException the request has failed: the error is that of Python
   */
  JsonNode ask(JsonNode request) {
    JsonNode answer;
    synchronized (process) {
      try {
        answer = exchanged(request);
      } catch (IOException first) {
        stop();
        try {
          answer = exchanged(request);
        } catch (IOException e) {
          throw TableError.of(
              "WorkerEnvironmentError",
              "the Python process that copies the table in '" + request.path("url").asText()
                  + "' to this host does not run: " + e.getMessage() + stop()
                  + ". The executor's log has its messages. All machines need a Python with the same "
                  + "bsjoin as the driver: name it by PYSPARK_PYTHON, or set "
                  + "spark.bsjoin.runtime=python");
        }
      }
    }
    if (answer.has("error")) {
      throw TableError.of(answer.path("error").asText(), answer.path("message").asText());
    }
    return answer;
  }

  /** Map a copy, before the next request removes its link. */
  Mapping map(JsonNode request, String name, long size) throws IOException {
    synchronized (process) {
      return Mapping.of(Paths.get(ask(request).path("path").asText()), name, size);
    }
  }

  private JsonNode exchanged(JsonNode request) throws IOException {
    if (process[0] == null) {
      start();
    }
    BufferedWriter requests = process[0].outputWriter(StandardCharsets.UTF_8);
    requests.write(request + "\n");
    requests.flush();
    String answer = process[0].inputReader(StandardCharsets.UTF_8).readLine();
    if (answer == null) {
      throw new IOException("it has ended");
    }
    return JSON.readTree(answer);
  }

  private void start() throws IOException {
    IOException failure = new IOException("no command is known");
    for (String command : commands) {
      ProcessBuilder builder = new ProcessBuilder(command, "-m", MODULE);
      builder.redirectError(ProcessBuilder.Redirect.INHERIT);
      addEnvironment(builder.environment());
      try {
        process[0] = builder.start();
        return;
      } catch (IOException e) {
        failure = e;
      }
    }
    throw failure;
  }

  /** What Spark adds to the environment of its Python workers. */
  private static void addEnvironment(Map<String, String> environment) {
    SparkEnv spark = SparkEnv.get();
    if (spark == null) {
      return;
    }
    String before = environment.get(PYTHONPATH);
    for (scala.Tuple2<String, String> setting : spark.conf().getAll()) {
      if (setting._1().startsWith(EXECUTOR_ENV)) {
        environment.put(setting._1().substring(EXECUTOR_ENV.length()), setting._2());
      }
    }
    String path = environment.get(PYTHONPATH);
    if (before != null && !before.equals(path)) {
      environment.put(PYTHONPATH, path + File.pathSeparator + before);
    }
  }

  /** End the process; with which code it has ended, for an error. */
  private String stop() {
    if (process[0] == null) {
      return "";
    }
    Process ended = process[0];
    process[0] = null;
    try {
      ended.getOutputStream().close();
    } catch (IOException e) {
      // It has ended: nobody reads what was to be written.
    }
    try {
      if (ended.waitFor(1, TimeUnit.SECONDS)) {
        return " with code " + ended.exitValue();
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    ended.destroyForcibly();
    return "";
  }
}
