package forward_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/dev/forward"
)

// A client that has said all still gets the whole answer, and Close ends what is open.
func TestForward(t *testing.T) {
	server := listen(t)
	f := forward.Start(listen(t), server.Addr().String())
	t.Cleanup(f.Close)
	client := func() *net.TCPConn {
		conn, err := net.DialTCP("tcp", nil, f.Addr().(*net.TCPAddr))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		return conn
	}
	first := client()
	served, err := server.Accept()
	require.NoError(t, err)
	_, err = first.Write([]byte("question"))
	require.NoError(t, err)
	require.NoError(t, first.CloseWrite())
	asked, err := io.ReadAll(served)
	require.NoError(t, err)
	require.Equal(t, "question", string(asked))
	_, err = served.Write([]byte("answer"))
	require.NoError(t, err)
	require.NoError(t, served.Close())
	answer, err := io.ReadAll(first)
	require.NoError(t, err)
	require.Equal(t, "answer", string(answer))

	second := client()
	served, err = server.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = served.Close() })
	f.Close()
	_, err = io.ReadAll(second)
	require.NotErrorIs(t, err, net.ErrClosed)
	_, err = io.ReadAll(served)
	require.NoError(t, err)
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}
