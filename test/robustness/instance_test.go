package robustness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"mainstay.dev/mainstay/test/testserver"
)

// instance is a server that the test restarts while clients use it.
type instance struct {
	*testserver.Server
	// gate is read-locked during a request that is not a watch. It is write-locked from the end of a process
	// until the next process has been checked.
	gate sync.RWMutex
	// mu guards epoch.
	mu    sync.Mutex
	epoch *epoch
}

// epoch is the time between two restarts.
type epoch struct {
	number int
	// ended is closed before the process is stopped. next is closed after the next epoch has begun.
	ended, next chan struct{}
}

func newInstance(t *testing.T, flags ...string) *instance {
	srv := testserver.New(t, testserver.Options{Flags: flags})
	return &instance{Server: srv, epoch: newEpoch(0)}
}

func newEpoch(number int) *epoch {
	return &epoch{number: number, ended: make(chan struct{}), next: make(chan struct{})}
}

func (in *instance) client(t *testing.T) *client {
	t.Helper()
	c, err := newClient(in.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.reconnect)
	return c
}

func (in *instance) now() *epoch {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.epoch
}

// user is a client of an instance. It is not safe for concurrent use.
type user struct {
	*client
	in *instance
	at int // the epoch of its connections
}

func (in *instance) user(t *testing.T) *user { return &user{client: in.client(t), in: in} }

// request calls make, which sends one request. The request does not overlap with a restart unless its outcome
// is unknown. The outcome can only be unknown if the epoch has ended; any other failure is an error.
func (u *user) request(make func() (outcome, error)) (outcome, error) {
	u.in.gate.RLock()
	defer u.in.gate.RUnlock()
	ep := u.in.now()
	if ep.number != u.at {
		u.reconnect()
		u.at = ep.number
	}
	out, err := make()
	if out != unknown {
		return out, err
	}
	select {
	case <-ep.ended:
		if errors.Is(err, errUnavailable) {
			return unknown, nil
		}
	default:
	}
	return unknown, err
}

// restarted waits until the server has been restarted. It is called after a request with an unknown outcome.
func (u *user) restarted(ctx context.Context) error {
	u.in.mu.Lock()
	ep := u.in.epoch
	u.in.mu.Unlock()
	if ep.number > u.at {
		return nil
	}
	select {
	case <-ep.next:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// restart ends the process, with SIGKILL if kill is true and with SIGTERM otherwise, and starts it again. It
// calls check while no request is in flight, before clients continue.
func (in *instance) restart(ctx context.Context, kill bool, rng *rand.Rand, check func() error) error {
	ep := in.now()
	close(ep.ended)
	if kill {
		in.Kill()
	} else if err := in.Stop(); err != nil {
		return err
	}
	in.gate.Lock()
	defer in.gate.Unlock()
	if kill && rng.IntN(4) == 0 {
		if err := in.killStarting(ctx, rng); err != nil {
			return err
		}
	}
	if err := in.start(ctx); err != nil {
		return err
	}
	if check != nil {
		if err := check(); err != nil {
			return err
		}
	}
	in.mu.Lock()
	in.epoch = newEpoch(ep.number + 1)
	in.mu.Unlock()
	close(ep.next)
	return nil
}

func (in *instance) start(ctx context.Context) error {
	if err := in.Start(ctx); err != nil {
		return fmt.Errorf("start after a restart: %w\n%s", err, in.Logs())
	}
	return nil
}

// killStarting starts the process and kills it before it is ready, or immediately after it is ready.
func (in *instance) killStarting(ctx context.Context, rng *rand.Rand) error {
	short, cancel := context.WithTimeout(ctx, time.Duration(rng.IntN(200))*time.Millisecond)
	defer cancel()
	err := in.Start(short)
	if err == nil {
		in.Kill()
		return nil
	}
	if short.Err() == nil {
		return fmt.Errorf("start to be killed: %w\n%s", err, in.Logs())
	}
	return nil
}
