package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/history"
)

// Settings for the keepalive of idle connections, and the maximum delay before reconnecting. An etcd server
// rejects pings at intervals shorter than 5s.
const (
	keepAliveTime    = 10 * time.Second
	keepAliveTimeout = 5 * time.Second
	maxConnectDelay  = 3 * time.Second
)

// maxSend is the maximum size of a request, in bytes. It is larger than etcd's default limit, so that the
// server's limit applies.
const maxSend = 16 << 20

// Store implements kv.Backend with an etcd cluster. It is safe for concurrent use.
type Store struct {
	config  Config
	log     *slog.Logger
	secure  credentials.TransportCredentials
	metrics *metrics
	client  *clientv3.Client
	// rpc is the gRPC client of client.KV. It accepts keys as bytes, and call options.
	rpc       pb.KVClient
	healthKey []byte

	revisions revisions
	leases    leases
	origins   *origins
	holds     *history.Holds
	marks     history.Marks

	// compacted is the newest known compacted revision, as defined by package kv: the oldest revision
	// from which a watch can start.
	compacted atomic.Int64
	// failingSince is the time at which the current series of failed requests began, in Unix nanoseconds; 0
	// if the last request succeeded.
	failingSince atomic.Int64
	// noStreamUntil is the time before which RangeStream is not used, in Unix nanoseconds.
	noStreamUntil atomic.Int64
	// full is set after etcd has rejected a write because of its space quota.
	full atomic.Bool
	// alarm is the error of etcd's alarms, or nil, and alarmsAt is the time of the last check, in Unix
	// nanoseconds.
	alarm    atomic.Pointer[error]
	alarmsAt atomic.Int64

	mu struct {
		sync.Mutex
		closed  bool
		watches map[*watch]struct{}
	}
	// ctx ends when Close is called. Close first waits for commits, then for tasks.
	ctx     context.Context
	cancel  context.CancelFunc
	commits sync.WaitGroup
	tasks   sync.WaitGroup
}

var _ kv.Backend = (*Store)(nil)

// Open returns a store that connects to etcd at the first request. It returns an error if the config is
// invalid, but not if etcd is unreachable: Await waits for etcd. The caller must call Close.
func Open(config Config) (*Store, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	s := &Store{config: config.withDefaults()}
	s.log = s.config.Logger
	s.healthKey = []byte(path.Join("/", s.config.HealthPrefix, "health"))
	s.mu.watches = make(map[*watch]struct{})
	s.leases.init()
	s.origins = newOrigins()
	s.holds = history.NewHolds()
	var err error
	if s.secure, err = s.config.credentials(); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if s.client, err = s.newClient(s.config.Endpoints...); err != nil {
		s.cancel()
		return nil, err
	}
	s.rpc = pb.NewKVClient(s.client.ActiveConnection())
	if s.metrics, err = newMetrics(s.config.Registerer, s); err != nil {
		s.cancel()
		return nil, errors.Join(err, s.client.Close())
	}
	s.tasks.Go(s.compactReleased)
	s.tasks.Go(s.recordTimes)
	if s.config.CompactionInterval > 0 {
		s.tasks.Go(s.compactPeriodically)
	}
	return s, nil
}

// newClient returns a client that connects at the first request.
func (s *Store) newClient(endpoints ...string) (*clientv3.Client, error) {
	connect := grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: s.config.DialTimeout}
	connect.Backoff.BaseDelay, connect.Backoff.MaxDelay = 100*time.Millisecond, maxConnectDelay
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            endpoints,
		DialTimeout:          s.config.DialTimeout,
		DialKeepAliveTime:    keepAliveTime,
		DialKeepAliveTimeout: keepAliveTimeout,
		MaxCallSendMsgSize:   maxSend,
		MaxUnaryRetries:      1, // call repeats requests
		DialOptions: append(s.config.dialOptions(),
			grpc.WithConnectParams(connect), grpc.WithTransportCredentials(s.secure),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(maxSend)),
		),
		Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, fmt.Errorf("create a client of etcd: %w", err)
	}
	return client, nil
}

// Await retries after awaitPause, and logs a message after each awaitReport.
const (
	awaitPause  = 250 * time.Millisecond
	awaitReport = 5 * time.Second
)

// Await waits until etcd responds to reads. If ctx ends or etcd rejects this client's credentials,
// it returns the last error. If etcd responds but rejects writes because its quota is reached, Await logs
// this and returns nil.
func (s *Store) Await(ctx context.Context) error {
	var last error
	var reported time.Time
	for {
		err := s.Health(ctx)
		if errors.Is(err, kv.ErrNoSpace) {
			s.log.Error("etcd does not accept writes", "servers", s.config.Endpoints, "err", err)
			return nil
		}
		if err == nil || !errors.Is(err, kv.ErrUnavailable) && ctx.Err() == nil {
			return err
		}
		if errors.Is(err, kv.ErrUnavailable) || last == nil {
			last = err
		}
		if ctx.Err() != nil {
			return last
		}
		if time.Since(reported) >= awaitReport {
			reported = time.Now()
			s.log.Warn("etcd does not respond yet", "servers", s.config.Endpoints, "err", last)
		}
		select {
		case <-time.After(awaitPause):
		case <-ctx.Done():
			return last
		}
	}
}

// Health implements kv.Backend.
func (s *Store) Health(ctx context.Context) error {
	_, err := s.newest(ctx)
	if err != nil && !errors.Is(err, kv.ErrCorrupt) {
		return fmt.Errorf("check etcd: %w", err)
	}
	if err = cmp.Or(s.checkAlarms(ctx), err); err != nil {
		return fmt.Errorf("check etcd: %w", err)
	}
	return nil
}

// beginCall registers a call, which Close waits for. The returned context ends when ctx ends and, except for
// commits, when Close is called. The caller must call leave. It returns kv.ErrClosed after Close.
func (s *Store) beginCall(ctx context.Context, commit bool) (_ context.Context, leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	group := &s.tasks
	if commit {
		group = &s.commits
	}
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return nil, nil, kv.ErrClosed
	}
	group.Add(1)
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	stop := func() bool { return true }
	if !commit {
		stop = context.AfterFunc(s.ctx, cancel)
	}
	return ctx, func() { stop(); cancel(); group.Done() }, nil
}

// Close implements kv.Backend.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return kv.ErrClosed
	}
	s.mu.closed = true
	s.mu.Unlock()
	s.cancel()
	s.commits.Wait()
	s.tasks.Wait()
	s.metrics.unregister()
	if err := s.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("close the client of etcd: %w", err)
	}
	return nil
}
