package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

var saying sync.Mutex

// A line to the reader, whole and at once.
func say(format string, words ...any) {
	saying.Lock()
	defer saying.Unlock()
	fmt.Printf(format+"\n", words...)
}

// Send until it is enough. A message that is not acknowledged is not sent again.
func sendOn(sender rocketmq.Producer, isEnough *atomic.Bool) {
	for number := 0; !isEnough.Load(); number++ {
		sent, err := sender.SendSync(context.Background(), message("lasting", "n", number))
		if err == nil && sent.Status == primitive.SendOK {
			say("sent %d %d n-%d", sent.MessageQueue.QueueId, sent.QueueOffset, number)
		} else {
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// A producer and a consumer that outlast their broker, as Lasting.java.
func lasting() {
	group := prefix + "lasting-group"
	reader, err := rocketmq.NewPushConsumer(
		consumer.WithGroupName(group),
		consumer.WithInstance(group),
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{address})),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumerOrder(true))
	check(err)
	take := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, one := range messages {
			say("got %d %d %s", one.Queue.QueueId, one.QueueOffset, one.Body)
		}
		return consumer.ConsumeSuccess, nil
	}
	check(reader.Subscribe(prefix+"lasting", consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}, take))
	check(reader.Start())
	sender, err := rocketmq.NewProducer(
		producer.WithGroupName(prefix+"lasting-senders"),
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{address})),
		producer.WithRetry(0),
		producer.WithSendMsgTimeout(time.Second),
		producer.WithQueueSelector(producer.NewRoundRobinQueueSelector()))
	check(err)
	check(sender.Start())
	var isEnough atomic.Bool
	var sending sync.WaitGroup
	sending.Add(1)
	go func() {
		sendOn(sender, &isEnough)
		sending.Done()
	}()
	lines := bufio.NewReader(os.Stdin)
	_, _ = lines.ReadString('\n')
	isEnough.Store(true)
	sending.Wait()
	say("done")
	_, _ = lines.ReadString('\n')
	os.Exit(0)
}
