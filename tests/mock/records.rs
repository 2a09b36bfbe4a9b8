//! Records that outlive what they came from.

use std::sync::mpsc;
use std::time::Duration;

use keyway::Record;

use crate::world::{LONG, World};

#[test]
fn an_async_handler_keeps_its_record_across_awaits() {
    let world = World::filled(50);
    let run = world.start(|builder| {
        builder
            .concurrency(50)
            .async_handler(|record: Record| async move {
                let before = (record.offset(), record.value().map(<[u8]>::to_vec));
                tokio::time::sleep(Duration::from_millis(20)).await;
                match (record.offset(), record.value().map(<[u8]>::to_vec)) == before {
                    true => Ok(()),
                    false => Err("it changed"),
                }
            })
    });
    run.until_done(50);
    assert_eq!(run.stop().failed, 0);
}

#[test]
fn a_record_may_be_kept_after_the_end_of_its_engine() {
    let world = World::filled(20);
    let (keep, kept) = mpsc::channel();
    let keep = std::sync::Mutex::new(keep);
    let run = world.start(|builder| {
        builder.async_handler(move |record: Record| {
            keep.lock()
                .expect("no panic")
                .send(record)
                .expect("somebody keeps them");
            async {}
        })
    });
    run.until_done(20);
    let report = run.stop();
    assert!(report.all_committed);
    drop(world);
    let mut records: Vec<Record> = (0..20)
        .map(|_| kept.recv_timeout(LONG).expect("kept"))
        .collect();
    records.sort_by_key(Record::offset);
    for (number, record) in records.iter().enumerate() {
        let text = number.to_string();
        assert_eq!(record.value(), Some(text.as_bytes()));
        assert_eq!((record.topic(), record.offset()), ("t", number as i64));
        assert!(record.cancelled());
    }
    // On another thread, in any order: the client goes with the last of them.
    std::thread::spawn(move || records.into_iter().rev().for_each(drop))
        .join()
        .expect("no crash");
}
