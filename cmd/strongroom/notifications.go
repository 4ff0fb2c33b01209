package main

import (
	"fmt"
	"log/slog"
	"strings"

	"strongroom/activities/notification"
	"strongroom/activities/notification/rabbitmq"
)

// notifications gives what tells of operations, and by which broker; nil where none is named.
func (b *backends) notifications(log *slog.Logger) (*notification.Writer, notification.Broker, error) {
	c := b.Notifications
	if c.URL == "" {
		return nil, nil, nil
	}
	if c.IncludeExportLocation && !c.IncludeShareMapping {
		return nil, nil, fmt.Errorf("notifications.include_export_location: only with notifications.include_share_mapping")
	}
	broker := &rabbitmq.Broker{URL: c.URL, PasswordFile: c.PasswordFile, Authority: c.Authority, Exchange: c.Exchange, Topics: c.Topics}
	if err := broker.Check(); err != nil {
		return nil, nil, fmt.Errorf("notifications: %w", err)
	}
	if strings.Contains(c.URL, "@") {
		if _, err := secretFile(c.PasswordFile); err != nil {
			return nil, nil, fmt.Errorf("notifications.password_file: %w", err)
		}
	}
	writer := &notification.Writer{Shares: c.IncludeShareMapping, StateChange: notification.StateChange(c.NotifyOnStateChange), Logger: log}
	switch writer.StateChange {
	case "", notification.VMStateChange, notification.VMAndTaskStateChange:
	default:
		return nil, nil, fmt.Errorf("notifications.notify_on_state_change: it is %s or %s, or empty", notification.VMStateChange, notification.VMAndTaskStateChange)
	}
	if c.IncludeExportLocation {
		box, err := b.seal()
		if err != nil {
			return nil, nil, err
		}
		writer.Locations = box
	}
	return writer, broker, nil
}
