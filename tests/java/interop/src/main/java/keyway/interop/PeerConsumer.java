package keyway.interop;

import io.confluent.parallelconsumer.ParallelConsumerOptions;
import io.confluent.parallelconsumer.ParallelConsumerOptions.CommitMode;
import io.confluent.parallelconsumer.ParallelConsumerOptions.ProcessingOrder;
import io.confluent.parallelconsumer.ParallelStreamProcessor;
import io.confluent.parallelconsumer.internal.AbstractParallelEoSStreamProcessor;
import io.confluent.parallelconsumer.internal.DrainingCloseable.DrainingMode;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Runs Java's Parallel Consumer over a topic and writes a line "partition offset key" for each record that it
 * processed, the key in hexadecimal, "-" for none.
 *
 * <p>Records named by --hold never complete: their handler waits for the stop and then fails. So what the peer commits
 * at its close has holes there. It stops after --stop-after-processed records and the next commit that follows, after
 * --until-idle-ms without a processed record, or when its input is closed, whichever comes first. When the consumer fails
 * by itself it ends with exit code 3 and the cause.
 */
public final class PeerConsumer {
    /** What stops the peer, and what it waits for; guarded by itself. */
    private static final class Progress {
        long processed;
        long lastChange;
        boolean assigned;
        boolean inputClosed;
        /** Acknowledged commits. */
        long commits;
        /** Acknowledged commits when the wanted number was reached. */
        long commitsThen = -1;
    }

    private static final Progress progress = new Progress();

    /** The exit code when the consumer has failed by itself. */
    private static final int FAILED = 3;

    /** How often it is seen whether it has failed. */
    private static final long LOOK_MILLIS = 100;

    /** Told by the client about each acknowledged commit. */
    public static final class Commits implements ConsumerInterceptor<byte[], byte[]> {
        @Override
        public ConsumerRecords<byte[], byte[]> onConsume(ConsumerRecords<byte[], byte[]> records) {
            return records;
        }

        @Override
        public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
            synchronized (progress) {
                progress.commits++;
                progress.notifyAll();
            }
        }

        @Override
        public void close() {}

        @Override
        public void configure(Map<String, ?> configs) {}
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = options(arguments);
        Set<String> held = new HashSet<>(List.of(options.getOrDefault("--hold", "").split(",")));
        long stopAfter = Long.parseLong(options.getOrDefault("--stop-after-processed", "-1"));
        long idle = Long.parseLong(options.getOrDefault("--until-idle-ms", "-1"));
        var stopping = new CountDownLatch(1);

        var processor = ParallelStreamProcessor.createEosStreamProcessor(
                ParallelConsumerOptions.<byte[], byte[]>builder()
                        .consumer(consumer(options))
                        .ordering(ProcessingOrder.valueOf(options.getOrDefault("--ordering", "KEY")))
                        .maxConcurrency(Integer.parseInt(options.getOrDefault("--concurrency", "16")))
                        .commitMode(CommitMode.valueOf(options.getOrDefault("--commit-mode", "PERIODIC_CONSUMER_SYNC")))
                        .commitInterval(Duration.ofMillis(Long.parseLong(options.getOrDefault("--commit-interval-ms", "100"))))
                        .build());
        watchInput();
        try (var lines = Files.newBufferedWriter(Path.of(options.get("--output")), StandardCharsets.UTF_8)) {
            processor.subscribe(List.of(options.get("--topic")), new Assigned());
            processor.poll(context -> {
                ConsumerRecord<byte[], byte[]> record = context.getSingleConsumerRecord();
                if (held.contains(record.partition() + ":" + record.offset())) {
                    try {
                        stopping.await();
                    } catch (InterruptedException interrupted) {
                        Thread.currentThread().interrupt();
                    }
                    throw new IllegalStateException("held: " + record.partition() + ":" + record.offset());
                }
                processed(record, lines, stopAfter);
            });
            awaitStop(idle, (AbstractParallelEoSStreamProcessor<?, ?>) processor);
            // Held handlers fail now, otherwise the close would wait for them.
            stopping.countDown();
            processor.close(Duration.ofSeconds(30), DrainingMode.DONT_DRAIN);
        }
        synchronized (progress) {
            System.out.println("stopped processed=" + progress.processed + " commits=" + progress.commits);
        }
        System.exit(0);
    }

    /** Names and values in turn. */
    static Map<String, String> options(String[] arguments) {
        var options = new HashMap<String, String>();
        for (int i = 0; i + 1 < arguments.length; i += 2) {
            options.put(arguments[i], arguments[i + 1]);
        }
        return options;
    }

    static KafkaConsumer<byte[], byte[]> consumer(Map<String, String> options) {
        var config = new HashMap<String, Object>();
        config.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, options.get("--bootstrap"));
        config.put(ConsumerConfig.GROUP_ID_CONFIG, options.get("--group"));
        config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        config.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
        config.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
        config.put(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, options.getOrDefault("--session-timeout-ms", "45000"));
        config.put(ConsumerConfig.INTERCEPTOR_CLASSES_CONFIG, List.of(Commits.class));
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static void processed(ConsumerRecord<byte[], byte[]> record, BufferedWriter lines, long stopAfter) {
        String key = record.key() == null ? "-" : HexFormat.of().formatHex(record.key());
        synchronized (progress) {
            try {
                lines.write(record.partition() + " " + record.offset() + " " + key + "\n");
                lines.flush();
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
            progress.processed++;
            progress.lastChange = System.nanoTime();
            if (progress.processed == stopAfter) {
                progress.commitsThen = progress.commits;
            }
            progress.notifyAll();
        }
    }

    /** The idle time counts from the first assignment, never from the start of the process. */
    private static final class Assigned implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            synchronized (progress) {
                progress.assigned = true;
                progress.lastChange = System.nanoTime();
                progress.notifyAll();
            }
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {}
    }

    private static void watchInput() {
        var watcher = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {}
            } catch (IOException closed) {
                // As good as the end.
            }
            synchronized (progress) {
                progress.inputClosed = true;
                progress.notifyAll();
            }
        });
        watcher.setDaemon(true);
        watcher.start();
    }

    /** Ends the process when the consumer has failed, which it tells nobody. */
    private static void awaitStop(long idleMillis, AbstractParallelEoSStreamProcessor<?, ?> processor)
            throws InterruptedException {
        synchronized (progress) {
            while (true) {
                if (processor.isClosedOrFailed()) {
                    System.out.println("failed processed=" + progress.processed);
                    Exception cause = processor.getFailureCause();
                    if (cause != null) {
                        cause.printStackTrace();
                    }
                    System.exit(FAILED);
                }
                boolean enough = progress.commitsThen >= 0 && progress.commits > progress.commitsThen;
                if (progress.inputClosed || enough) {
                    return;
                }
                if (idleMillis < 0 || !progress.assigned) {
                    progress.wait(LOOK_MILLIS);
                    continue;
                }
                long idleFor = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - progress.lastChange);
                if (idleFor >= idleMillis) {
                    return;
                }
                progress.wait(Math.min(LOOK_MILLIS, idleMillis - idleFor));
            }
        }
    }
}
