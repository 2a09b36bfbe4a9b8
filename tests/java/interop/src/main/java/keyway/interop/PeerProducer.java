package keyway.interop;

import io.confluent.parallelconsumer.ParallelConsumerOptions;
import io.confluent.parallelconsumer.ParallelConsumerOptions.CommitMode;
import io.confluent.parallelconsumer.ParallelConsumerOptions.ProcessingOrder;
import io.confluent.parallelconsumer.ParallelStreamProcessor;
import io.confluent.parallelconsumer.internal.DrainingCloseable.DrainingMode;
import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Runs Java's Parallel Consumer with a handler that does nothing but answer each record with an output of the same key
 * and value, in transactions. Writes a line "first MICROS" when the first record is handled, in microseconds since 1970,
 * and stops when its input is closed.
 */
public final class PeerProducer {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = PeerConsumer.options(arguments);
        var processor = ParallelStreamProcessor.createEosStreamProcessor(
                ParallelConsumerOptions.<byte[], byte[]>builder()
                        .consumer(PeerConsumer.consumer(options))
                        .producer(producer(options))
                        .ordering(ProcessingOrder.KEY)
                        .maxConcurrency(Integer.parseInt(options.get("--concurrency")))
                        .commitMode(CommitMode.PERIODIC_TRANSACTIONAL_PRODUCER)
                        .commitInterval(Duration.ofMillis(Long.parseLong(options.get("--commit-interval-ms"))))
                        .allowEagerProcessingDuringTransactionCommit(Boolean.parseBoolean(options.get("--eager")))
                        .build());
        String output = options.get("--output");
        var begun = new AtomicBoolean();
        processor.subscribe(List.of(options.get("--topic")));
        processor.pollAndProduce(context -> {
            if (!begun.get() && begun.compareAndSet(false, true)) {
                System.out.println("first " + ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now()));
            }
            return new ProducerRecord<>(output, context.key(), context.value());
        });
        awaitEndOfInput();
        processor.close(Duration.ofSeconds(30), DrainingMode.DONT_DRAIN);
        System.exit(0);
    }

    private static void awaitEndOfInput() {
        try {
            while (System.in.read() >= 0) {}
        } catch (IOException closed) {
            // As good as the end.
        }
    }

    private static KafkaProducer<byte[], byte[]> producer(Map<String, String> options) {
        var config = new HashMap<String, Object>();
        config.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, options.get("--bootstrap"));
        config.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, options.get("--group"));
        config.put(ProducerConfig.LINGER_MS_CONFIG, options.get("--linger-ms"));
        return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }
}
