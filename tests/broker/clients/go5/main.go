// RocketMQ's Go client of version 5 sends and receives at a gRPC port: the last line is what it saw, as JSON.
//
// Usage: ADDRESS.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	client "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const (
	lease = 10 * time.Second
	wait  = 5 * time.Second
	limit = 60 * time.Second
)

func config(address string, group string) *client.Config {
	return &client.Config{Endpoint: address, ConsumerGroup: group, Credentials: &credentials.SessionCredentials{}}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func send(producer client.Producer, topic string, count int) {
	for number := 0; number < count; number++ {
		message := &client.Message{Topic: topic, Body: []byte(fmt.Sprintf("%s%d", topic, number))}
		message.SetTag([]string{"even", "odd"}[number%2])
		message.SetKeys(fmt.Sprintf("k%d", number))
		message.AddProperty("number", fmt.Sprint(number))
		_, err := producer.Send(context.Background(), message)
		check(err)
	}
}

// taken receives and acknowledges messages until there are so many, or a poll has none.
func taken(consumer client.SimpleConsumer, count int) [][]any {
	found := [][]any{}
	for end := time.Now().Add(limit); len(found) < count && time.Now().Before(end); {
		messages, err := consumer.Receive(context.Background(), 16, lease)
		if err != nil && !strings.Contains(err.Error(), "MESSAGE_NOT_FOUND") && !strings.Contains(err.Error(), "40401") {
			check(err)
		}
		for _, one := range messages {
			check(consumer.Ack(context.Background(), one))
			found = append(found, []any{string(one.GetBody()), *one.GetTag(), one.GetKeys(), one.GetProperties()["number"], one.GetDeliveryAttempt()})
		}
		if count < 0 || len(messages) == 0 && count == 1 {
			break
		}
	}
	sort.Slice(found, func(a, b int) bool { return found[a][0].(string) < found[b][0].(string) })
	return found
}

func main() {
	client.EnableSsl = false
	client.ResetLogger()
	address := os.Args[1]
	producer, err := client.NewProducer(config(address, ""), client.WithTopics("normal", "push"))
	check(err)
	check(producer.Start())
	send(producer, "normal", 8)
	simple, err := client.NewSimpleConsumer(
		config(address, "normal-readers"),
		client.WithSimpleAwaitDuration(wait),
		client.WithSimpleSubscriptionExpressions(map[string]*client.FilterExpression{"normal": client.NewFilterExpression("even")}),
	)
	check(err)
	check(simple.Start())
	got := taken(simple, 4)
	then := taken(simple, 1)
	check(simple.GracefulStop())

	var lock sync.Mutex
	pushed := []string{}
	done := make(chan bool, 100)
	push, err := client.NewPushConsumer(
		config(address, "push-readers"),
		client.WithPushAwaitDuration(wait),
		client.WithPushSubscriptionExpressions(map[string]*client.FilterExpression{"push": client.SUB_ALL}),
		client.WithPushMessageListener(&client.FuncMessageListener{
			Consume: func(one *client.MessageView) client.ConsumerResult {
				lock.Lock()
				defer lock.Unlock()
				pushed = append(pushed, fmt.Sprintf("%s %d", one.GetBody(), one.GetDeliveryAttempt()))
				done <- true
				if one.GetDeliveryAttempt() == 1 {
					return client.FAILURE
				}
				return client.SUCCESS
			},
		}),
		client.WithPushConsumptionThreadCount(4),
		client.WithPushMaxCacheMessageCount(64),
	)
	check(err)
	check(push.Start())
	send(producer, "push", 3)
	for number := 0; number < 6; number++ {
		select {
		case <-done:
		case <-time.After(limit):
		}
	}
	check(push.GracefulStop())
	check(producer.GracefulStop())
	lock.Lock()
	defer lock.Unlock()
	sort.Strings(pushed)
	line, err := json.Marshal(map[string]any{"got": got, "then": then, "pushed": pushed})
	check(err)
	fmt.Println(string(line))
}
