// What RocketMQ's Go client does with a broker: it prints one line of JSON with what it saw.
//
// Usage: ADDRESS PREFIX; the topics go (4 queues) and go-retry (2 queues) with that prefix are there before.
// ADDRESS PREFIX lasting: the topic lasting with that prefix is there before; see lasting.go.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const (
	count = 10
	limit = 60 * time.Second
)

var address, prefix string

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func message(topic string, kind string, number int) *primitive.Message {
	made := primitive.NewMessage(prefix+topic, []byte(fmt.Sprintf("%s-%d", kind, number)))
	made.WithTag(kind).WithKeys([]string{fmt.Sprintf("%s%d", kind, number)}).WithProperty("own", "wert ä")
	return made
}

// What the messages of a topic look like to a consumer, until there are so many.
func consumed(topic string, want int, tries int, options ...consumer.Option) []string {
	var lock sync.Mutex
	var seen []string
	done := 0
	group := prefix + topic + "-group"
	options = append(options,
		consumer.WithGroupName(group),
		consumer.WithInstance(group),
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{address})),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	made, err := rocketmq.NewPushConsumer(options...)
	check(err)
	take := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		lock.Lock()
		defer lock.Unlock()
		result := consumer.ConsumeSuccess
		for _, one := range messages {
			seen = append(seen, fmt.Sprintf("%s %s %s %s %d", one.GetTags(), one.GetKeys(), one.Body, one.GetProperty("own"), one.ReconsumeTimes))
			if int(one.ReconsumeTimes)+1 < tries {
				result = consumer.ConsumeRetryLater
			} else {
				done++
			}
		}
		return result, nil
	}
	check(made.Subscribe(prefix+topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}, take))
	check(made.Start())
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		lock.Lock()
		enough := done >= want
		lock.Unlock()
		if enough {
			break
		}
	}
	check(made.Shutdown())
	lock.Lock()
	defer lock.Unlock()
	return seen
}

func main() {
	address, prefix = os.Args[1], os.Args[2]
	rlog.SetLogLevel("fatal")
	if len(os.Args) > 3 && os.Args[3] == "lasting" {
		lasting()
	}
	background := context.Background()
	sender, err := rocketmq.NewProducer(
		producer.WithGroupName(prefix+"go-senders"),
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{address})),
		producer.WithQueueSelector(producer.NewRoundRobinQueueSelector()))
	check(err)
	check(sender.Start())
	statuses, queues := map[string]bool{}, map[int]bool{}
	var waiting sync.WaitGroup
	var lock sync.Mutex
	var batch []*primitive.Message
	for number := 0; number < count; number++ {
		sent, err := sender.SendSync(background, message("go", "sync", number))
		check(err)
		statuses[fmt.Sprintf("sync %d", sent.Status)] = true
		queues[sent.MessageQueue.QueueId] = true
		waiting.Add(1)
		check(sender.SendAsync(background, func(_ context.Context, sent *primitive.SendResult, err error) {
			check(err)
			lock.Lock()
			statuses[fmt.Sprintf("async %d", sent.Status)] = true
			lock.Unlock()
			waiting.Done()
		}, message("go", "async", number)))
		check(sender.SendOneWay(background, message("go", "oneway", number)))
		_, err = sender.SendSync(background, message("go-retry", "again", number))
		check(err)
		batch = append(batch, message("go", "batch", number))
	}
	waiting.Wait()
	sent, err := sender.SendSync(background, batch...)
	check(err)
	statuses[fmt.Sprintf("batch %d", sent.Status)] = true
	outcome := map[string]any{"statuses": statuses, "queues": len(queues)}
	outcome["got"] = consumed("go", 4*count, 1)
	outcome["retried"] = consumed("go-retry", count, 2)
	for _, name := range []string{"got", "retried"} {
		sort.Strings(outcome[name].([]string))
	}
	check(sender.Shutdown())
	line, err := json.Marshal(outcome)
	check(err)
	fmt.Println(string(line))
}
