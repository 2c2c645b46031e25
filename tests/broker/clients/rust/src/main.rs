//! RocketMQ's Rust client sends, receives and ends transactions at a gRPC port: the last line is what it saw, as JSON.
//!
//! Usage: ADDRESS.

use std::collections::HashMap;
use std::error::Error;
use std::time::{Duration, Instant};

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::MessageBuilder;
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};
use serde_json::{json, Value};

const LEASE: Duration = Duration::from_secs(10);
/// The deadline of a receive as well, which must be above the 5 s that a proxy waits at least.
const WAIT: Duration = Duration::from_secs(8);
const LIMIT: Duration = Duration::from_secs(60);

type Done<T> = Result<T, Box<dyn Error>>;

fn client(address: &str) -> ClientOption {
    let mut option = ClientOption::default();
    option.set_access_url(address);
    option.set_enable_tls(false);
    option.set_long_polling_timeout(WAIT);
    option
}

fn producing(topic: &str) -> ProducerOption {
    let mut option = ProducerOption::default();
    option.set_topics(vec![topic]);
    option
}

async fn consumer(address: &str, group: &str, topic: &str) -> Done<SimpleConsumer> {
    let mut option = SimpleConsumerOption::default();
    option.set_topics(vec![topic]);
    option.set_consumer_group(group);
    let mut made = SimpleConsumer::new(option, client(address))?;
    made.start().await?;
    Ok(made)
}

/// Receives and acknowledges messages until there are so many.
async fn take(consumer: &SimpleConsumer, topic: &str, tags: &str, count: usize) -> Done<Vec<Value>> {
    let filter = FilterExpression::new(FilterType::Tag, tags);
    let begin = Instant::now();
    let mut found = Vec::new();
    while found.len() < count && begin.elapsed() < LIMIT {
        for one in consumer.receive_with(topic, &filter, 16, LEASE).await? {
            consumer.ack(&one).await?;
            let body = String::from_utf8(one.body().to_vec())?;
            found.push(json!([body, one.tag(), one.keys(), one.properties().get("number"), one.delivery_attempt()]));
        }
    }
    found.sort_by_key(|one| one[0].to_string());
    Ok(found)
}

async fn normal(address: &str) -> Done<(Vec<Value>, Vec<String>)> {
    let mut producer = Producer::new(producing("normal"), client(address))?;
    producer.start().await?;
    for number in 0..8 {
        let message = MessageBuilder::builder()
            .set_topic("normal")
            .set_tag(if number % 2 == 0 { "even" } else { "odd" })
            .set_keys(vec![format!("k{number}")])
            .set_properties(HashMap::from([("number", number.to_string())]))
            .set_body(format!("normal{number}").into_bytes())
            .build()?;
        producer.send(message).await?;
    }
    producer.shutdown().await?;
    let simple = consumer(address, "normal-readers", "normal").await?;
    let got = take(&simple, "normal", "even", 4).await?;
    let filter = FilterExpression::new(FilterType::Tag, "even");
    let then = simple.receive_with("normal", &filter, 16, LEASE).await?;
    let then = then.iter().map(|one| one.message_id().to_string()).collect();
    simple.shutdown().await?;
    Ok((got, then))
}

async fn transactions(address: &str) -> Done<Vec<Value>> {
    let checker = Box::new(|_: String, _| TransactionResolution::UNKNOWN);
    let mut producer = Producer::new_transaction_producer(producing("paid"), client(address), checker)?;
    producer.start().await?;
    for body in ["committed", "rolled back"] {
        let message = MessageBuilder::transaction_message_builder("paid", body.as_bytes().to_vec()).build()?;
        let transaction = producer.send_transaction_message(message).await?;
        if body == "committed" {
            transaction.commit().await?;
        } else {
            transaction.rollback().await?;
        }
    }
    producer.shutdown().await?;
    let simple = consumer(address, "paid-readers", "paid").await?;
    let mut paid = take(&simple, "paid", "*", 1).await?;
    let filter = FilterExpression::new(FilterType::Tag, "*");
    for one in simple.receive_with("paid", &filter, 16, LEASE).await? {
        paid.push(json!([String::from_utf8(one.body().to_vec())?]));
    }
    simple.shutdown().await?;
    Ok(paid)
}

#[tokio::main]
async fn main() -> Done<()> {
    let address = std::env::args().nth(1).ok_or("give the address")?;
    let (got, then) = normal(&address).await?;
    let paid = transactions(&address).await?;
    let bodies: Vec<&Value> = paid.iter().map(|one| &one[0]).collect();
    println!("{}", json!({"got": got, "then": then, "paid": bodies}));
    Ok(())
}
