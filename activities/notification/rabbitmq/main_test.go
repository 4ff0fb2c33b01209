package rabbitmq_test

import (
	"os"
	"testing"

	"strongroom/integration/seed"
)

func TestMain(m *testing.M) {
	seed.Deep("shares", TestSH24NotificationsReachTheBroker, TestSH24TheBrokerAsItIs, TestSH24ABrokerThatReadsNothing)
	os.Exit(m.Run())
}
