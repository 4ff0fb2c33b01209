package rabbitmq_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"strongroom/activities/notification"
	"strongroom/activities/notification/rabbitmq"
	"strongroom/activities/notification/rabbitmq/rabbitmqtest"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/schematest"
)

const (
	info   = "versioned_notifications.info"
	errors = "versioned_notifications.error"
)

func brokerOf(s *rabbitmqtest.Server) *rabbitmq.Broker {
	return &rabbitmq.Broker{URL: s.URL, PasswordFile: s.PasswordFile, Exchange: "nova", Topics: []string{"versioned_notifications"}}
}

func insert(t *testing.T, f *schematest.Fixture, priority string, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		require.NoError(t, f.Q.InsertNotification(f.Ctx, schema.InsertNotificationParams{
			ID: uuid.New(), EventType: "instance.create.end", Priority: priority, Message: body,
		}))
	}
}

func bodies(deliveries []amqp.Delivery) (all []string) {
	for _, d := range deliveries {
		all = append(all, string(d.Body))
	}
	return all
}

func numbered(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf(`{"n": %d}`, i))
	}
	return all
}

// SH-24: notifications reach a real RabbitMQ as oslo.messaging sends them: one queue for each
// priority, in order, persistent. While the broker is down they wait, nothing is lost by its crash,
// and several control workers do not get into each other's way.
func TestSH24NotificationsReachTheBroker(t *testing.T) {
	t.Parallel()
	f := schematest.NewFixture(t)
	server := rabbitmqtest.New(t)
	sender := func() *notification.Sender {
		s := &notification.Sender{Pool: f.DB, Broker: brokerOf(server), Logger: slog.New(slog.DiscardHandler)}
		t.Cleanup(s.Broker.Close)
		return s
	}
	one := sender()
	sent := numbered(5)
	insert(t, f, "INFO", sent...)
	_, err := one.Send(t.Context())
	require.True(t, compute.Is(err, compute.Unavailable), "%v", err)
	require.NotContains(t, err.Error(), server.Password())
	require.Equal(t, 5, f.CountRows("SELECT count(*) FROM notifications"), "they wait")

	server.Start(t)
	insert(t, f, "ERROR", `{"e": 1}`)
	_, err = one.Send(t.Context())
	require.NoError(t, err)
	require.Zero(t, f.CountRows("SELECT count(*) FROM notifications"))
	got := server.Take(t, info)
	require.Equal(t, sent, bodies(got))
	require.Equal(t, []string{`{"e": 1}`}, bodies(server.Take(t, errors)))
	for _, d := range got {
		require.Equal(t, []string{"nova", info, "application/json", "utf-8"}, []string{d.Exchange, d.RoutingKey, d.ContentType, d.ContentEncoding})
		require.Equal(t, amqp.Persistent, d.DeliveryMode)
		require.NotEmpty(t, d.MessageId)
	}

	// The broker crashes with messages that it has confirmed, and comes back. Meanwhile there are more.
	before, after := numbered(500), []string{`{"after": 1}`}
	insert(t, f, "INFO", before...)
	for more := true; more; {
		more, err = one.Send(t.Context())
		require.NoError(t, err)
	}
	server.Stop(t)
	insert(t, f, "INFO", after...)
	_, err = one.Send(t.Context())
	require.Error(t, err)
	server.Start(t)
	for _, s := range []*notification.Sender{one, sender(), sender()} {
		require.NoError(t, s.Start())
		defer s.Stop()
	}
	require.Eventually(t, func() bool { return f.CountRows("SELECT count(*) FROM notifications") == 0 }, time.Minute, 100*time.Millisecond)
	require.Equal(t, append(before, after...), bodies(server.Take(t, info)))
}

// What somebody else declared is used as it is: an exchange and queues that are not durable, as
// oslo.messaging's defaults make them. A queue that is deleted is made again, and no message goes
// into the void.
func TestSH24TheBrokerAsItIs(t *testing.T) {
	t.Parallel()
	server := rabbitmqtest.New(t)
	server.Start(t)
	c, err := server.Dial()
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	ch, err := c.Channel()
	require.NoError(t, err)
	require.NoError(t, ch.ExchangeDeclare("nova", amqp.ExchangeTopic, false, false, false, false, nil))
	_, err = ch.QueueDeclare(info, false, false, false, false, nil)
	require.NoError(t, err)

	b := brokerOf(server)
	defer b.Close()
	message := func(n int) []notification.Message {
		body, err := json.Marshal(n)
		require.NoError(t, err)
		return []notification.Message{{ID: uuid.NewString(), Priority: "INFO", Body: body}}
	}
	taken, err := b.Send(t.Context(), message(1))
	require.NoError(t, err)
	require.Equal(t, 1, taken)
	require.Equal(t, []string{"1"}, bodies(server.Take(t, info)))

	_, err = ch.QueueDelete(info, false, false, false)
	require.NoError(t, err)
	taken, err = b.Send(t.Context(), message(2))
	require.Error(t, err, "no queue takes it")
	require.Zero(t, taken)
	taken, err = b.Send(t.Context(), message(2))
	require.NoError(t, err)
	require.Equal(t, 1, taken)
	require.Equal(t, []string{"2"}, bodies(server.Take(t, info)))

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	taken, err = b.Send(cancelled, message(3))
	require.Error(t, err)
	require.Zero(t, taken)
}

// A broker that is short of memory reads nothing and stays connected: a Send ends with its context, and
// so does a Sender that is told to stop.
func TestSH24ABrokerThatReadsNothing(t *testing.T) {
	t.Parallel()
	server := rabbitmqtest.New(t, "vm_memory_high_watermark.absolute = 1")
	server.Start(t)
	b := brokerOf(server)
	defer b.Close()
	var messages []notification.Message
	for range 200 {
		messages = append(messages, notification.Message{ID: uuid.NewString(), Priority: "INFO", Body: make([]byte, 256<<10)})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	taken, err := b.Send(ctx, messages)
	require.True(t, compute.Is(err, compute.Unavailable), "%v", err)
	require.Less(t, taken, len(messages))
}

func TestBrokerSettings(t *testing.T) {
	t.Parallel()
	good := rabbitmq.Broker{URL: "amqp://strongroom@rabbit:5672/", Exchange: "nova", Topics: []string{"versioned_notifications"}}
	require.NoError(t, good.Check())
	for name, spoil := range map[string]func(*rabbitmq.Broker){
		"no address":   func(b *rabbitmq.Broker) { b.URL = "rabbit:5672" },
		"a scheme":     func(b *rabbitmq.Broker) { b.URL = "http://rabbit/" },
		"a password":   func(b *rabbitmq.Broker) { b.URL = "amqp://strongroom:hunter2@rabbit/" },
		"a bad escape": func(b *rabbitmq.Broker) { b.URL = "amqp://strongroom:hunter2%zz@rabbit/" },
		"no exchange":  func(b *rabbitmq.Broker) { b.Exchange = "" },
		"no topic":     func(b *rabbitmq.Broker) { b.Topics = nil },
	} {
		b := rabbitmq.Broker{URL: good.URL, Exchange: good.Exchange, Topics: good.Topics}
		spoil(&b)
		err := b.Check()
		require.True(t, compute.Is(err, compute.Invalid), "%s: %v", name, err)
		require.NotContains(t, err.Error(), "hunter2", name)
	}
}
