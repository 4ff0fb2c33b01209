// Package rabbitmq sends notifications to RabbitMQ, as oslo.messaging does: to the topic exchange
// of the service, with the routing key TOPIC.PRIORITY, and into a queue of that name.
package rabbitmq

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"strongroom/activities/notification"
	"strongroom/compute"
)

// How long a connection may take, and how soon a dead one is noticed.
const (
	dialLimit = 10 * time.Second
	heartbeat = 10 * time.Second
)

// mostReturned is more messages than are sent at once: who reads what is returned reads it after that.
const mostReturned = 1024

// Broker is a RabbitMQ. It connects when there is something to send.
type Broker struct {
	URL          string   // amqp://user@host:5672/vhost, or amqps
	PasswordFile string   // of the user; "": none
	Authority    string   // file: whose certificate the broker of an amqps URL must have; "": one that the system trusts
	Exchange     string   // nova
	Topics       []string // versioned_notifications

	mu         sync.Mutex
	connection *amqp.Connection
	channel    *amqp.Channel
	returned   chan amqp.Return
}

// Check refuses settings that name no broker. Invalid: they do not.
func (b *Broker) Check() error {
	u, err := url.Parse(b.URL)
	switch {
	case err != nil, u.Scheme != "amqp" && u.Scheme != "amqps", u.Host == "":
		return compute.Errorf(compute.Invalid, "this is no address of a message broker: it is like amqp://user@host:5672/vhost")
	case hasPassword(u):
		return compute.Errorf(compute.Invalid, "the address of the message broker has a password: a file has it")
	case b.Exchange == "" || len(b.Topics) == 0:
		return compute.Errorf(compute.Invalid, "notifications need an exchange and at least one topic")
	}
	return nil
}

func hasPassword(u *url.URL) bool {
	_, has := u.User.Password()
	return has
}

// Send gives messages to the exchange, each once for every topic. Unavailable: the broker does
// not answer, or does not keep one.
func (b *Broker) Send(ctx context.Context, messages []notification.Message) (taken int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer func() {
		if err != nil {
			b.close()
			err = compute.Errorf(compute.Unavailable, "message broker: %w", err)
		}
	}()
	if err := b.connect(); err != nil {
		return 0, err
	}
	// A broker that is short of memory or disk reads nothing more and stays connected, and a write has
	// no context: the end of ctx ends the connection.
	c := b.connection
	stop := context.AfterFunc(ctx, func() { _ = c.CloseDeadline(time.Now().Add(time.Second)) })
	defer stop()
	pending := make([][]*amqp.DeferredConfirmation, 0, len(messages))
	for _, m := range messages {
		confirmations, publishErr := b.publish(ctx, m)
		if publishErr != nil {
			err = publishErr
			break
		}
		pending = append(pending, confirmations)
	}
	for _, confirmations := range pending {
		for _, c := range confirmations {
			kept, waitErr := c.WaitContext(ctx)
			if waitErr == nil && !kept {
				waitErr = errors.New("it refused a message")
			}
			if waitErr != nil {
				return taken, errors.Join(err, waitErr)
			}
		}
		select { // the return of a message that no queue takes comes before its confirmation
		case r := <-b.returned:
			return taken, errors.Join(err, fmt.Errorf("no queue takes %s: %s", r.RoutingKey, r.ReplyText))
		default:
		}
		taken++
	}
	return taken, err
}

func (b *Broker) publish(ctx context.Context, m notification.Message) ([]*amqp.DeferredConfirmation, error) {
	confirmations := make([]*amqp.DeferredConfirmation, 0, len(b.Topics))
	for _, topic := range b.Topics {
		c, err := b.channel.PublishWithDeferredConfirmWithContext(ctx, b.Exchange, key(topic, m.Priority), true, false, amqp.Publishing{
			ContentType: "application/json", ContentEncoding: "utf-8", DeliveryMode: amqp.Persistent, Priority: 0, MessageId: m.ID, Body: m.Body,
		})
		if err != nil {
			return nil, err
		}
		confirmations = append(confirmations, c)
	}
	return confirmations, nil
}

func key(topic, priority string) string { return topic + "." + strings.ToLower(priority) }

// Close ends the connection, if there is one.
func (b *Broker) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.close()
}

func (b *Broker) close() {
	if b.connection != nil {
		_ = b.connection.CloseDeadline(time.Now().Add(time.Second))
	}
	b.connection, b.channel = nil, nil
}

// connect connects where there is no connection, and makes what is missing: the exchange, and
// the queues, in which notifications wait for those who read them.
func (b *Broker) connect() error {
	if b.connection != nil && !b.connection.IsClosed() && !b.channel.IsClosed() {
		return nil
	}
	b.close()
	u, err := url.Parse(b.URL)
	if err != nil {
		return errors.New("its address is no URL")
	}
	config := amqp.Config{Heartbeat: heartbeat, Dial: amqp.DefaultDial(dialLimit)}
	if u.User != nil {
		password, err := secretText(b.PasswordFile)
		if err != nil {
			return err
		}
		config.SASL = []amqp.Authentication{&amqp.PlainAuth{Username: u.User.Username(), Password: password}}
	}
	if b.Authority != "" {
		if config.TLSClientConfig, err = trusting(b.Authority); err != nil {
			return err
		}
	}
	if b.connection, err = amqp.DialConfig(b.URL, config); err != nil {
		return err
	}
	if err := b.declareAll(); err != nil {
		return err
	}
	if b.channel, err = b.connection.Channel(); err != nil {
		return err
	}
	b.returned = b.channel.NotifyReturn(make(chan amqp.Return, mostReturned*len(b.Topics)))
	return b.channel.Confirm(false)
}

func secretText(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	return strings.TrimSpace(string(text)), err
}

func trusting(file string) (*tls.Config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate", file)
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}

func (b *Broker) declareAll() error {
	err := b.declare(
		func(ch *amqp.Channel) error {
			return ch.ExchangeDeclarePassive(b.Exchange, amqp.ExchangeTopic, false, false, false, false, nil)
		},
		func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare(b.Exchange, amqp.ExchangeTopic, true, false, false, false, nil)
		},
	)
	if err != nil {
		return err
	}
	for _, topic := range b.Topics {
		for _, priority := range []string{"INFO", "ERROR"} {
			name := key(topic, priority)
			err := b.declare(
				func(ch *amqp.Channel) error {
					_, err := ch.QueueDeclarePassive(name, false, false, false, false, nil)
					return err
				},
				func(ch *amqp.Channel) error {
					_, err := ch.QueueDeclare(name, true, false, false, false, nil)
					return err
				},
				func(ch *amqp.Channel) error { return ch.QueueBind(name, name, b.Exchange, false, nil) },
			)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// declare makes what is not there, durable; what is there stays as its maker wants it. Then it
// takes the further steps.
func (b *Broker) declare(there, create func(*amqp.Channel) error, then ...func(*amqp.Channel) error) error {
	err := b.onChannel(there)
	var refused *amqp.Error
	if errors.As(err, &refused) && refused.Code == amqp.NotFound {
		err = b.onChannel(create)
	}
	for _, step := range then {
		if err == nil {
			err = b.onChannel(step)
		}
	}
	return err
}

// onChannel does one thing on a channel of its own: a refusal ends the channel.
func (b *Broker) onChannel(do func(*amqp.Channel) error) error {
	ch, err := b.connection.Channel()
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	return do(ch)
}
