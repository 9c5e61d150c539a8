package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// soakConfig configures a soak.
type soakConfig struct {
	binary, dir   string
	duration      time.Duration
	restartEvery  time.Duration
	sampleEvery   time.Duration
	csv, svg      string
	serverOptions string
}

func soakCommand(ctx context.Context, args []string) error {
	var config soakConfig
	flags := flag.NewFlagSet("soak", flag.ExitOnError)
	flags.StringVar(&config.binary, "binary", "mainstay", "path of the server's binary")
	flags.StringVar(&config.dir, "data-dir", "soak-data", "data directory of the server; the log is stored next to it")
	flags.DurationVar(&config.duration, "duration", time.Hour, "duration of the soak")
	flags.DurationVar(&config.restartEvery, "restart-every", 10*time.Minute, "time between restarts, which use SIGTERM and SIGKILL in turn")
	flags.DurationVar(&config.sampleEvery, "sample-every", 5*time.Second, "time between samples")
	flags.StringVar(&config.csv, "csv", "soak.csv", "file for the samples")
	flags.StringVar(&config.svg, "svg", "soak.svg", "file for the chart")
	flags.StringVar(&config.serverOptions, "server-flags", "--event-ttl=2m", "additional flags of the server, separated by spaces")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return runSoak(ctx, config)
}

// runSoak loads a server and draws its resource usage. It returns an error if a request failed and no restart
// explains the failure.
func runSoak(ctx context.Context, config soakConfig) error {
	if err := os.MkdirAll(filepath.Dir(config.dir), 0o700); err != nil {
		return err
	}
	srv, err := newServer(config.binary, config.dir, strings.Fields(config.serverOptions)...)
	if err != nil {
		return err
	}
	if _, err := srv.start(ctx); err != nil {
		return err
	}
	defer func() { srv.kill() }()
	s := &soak{config: config, server: srv, began: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, config.duration)
	defer cancel()
	if err := s.prepare(ctx); err != nil {
		return err
	}
	var work sync.WaitGroup
	for _, a := range activities() {
		for n := range a.workers {
			work.Go(func() { s.work(ctx, a, n) })
		}
	}
	err = s.observe(ctx)
	cancel()
	work.Wait()
	return errors.Join(err, s.draw(), s.verdict())
}

// soak is a running soak test.
type soak struct {
	config   soakConfig
	server   *server
	began    time.Time
	restarts int

	turns, failures atomic.Int64
	samples         []*sample
}

// namespaces is the number of namespaces that contain the objects of a soak or of a simulated cluster.
const namespaces = 10

func namespaceOf(n int) string { return fmt.Sprintf("soak-%d", n%namespaces) }

// prepare creates the objects that all activities need.
func (s *soak) prepare(ctx context.Context) error {
	c, err := newClient(s.server.kubeconfig())
	if err != nil {
		return err
	}
	defer c.close()
	for n := range namespaces {
		if err := c.create(ctx, "/api/v1/namespaces", namespaceObject(namespaceOf(n))); err != nil {
			return err
		}
		if err := c.await(ctx, "/api/v1/namespaces/"+namespaceOf(n)+"/serviceaccounts/default", true); err != nil {
			return err
		}
	}
	if err := c.create(ctx, definitionsPath, definitionObject("widgets")); err != nil {
		return err
	}
	return c.await(ctx, "/apis/"+soakGroup+"/v1/widgets", true)
}

// worker is the state of one goroutine that repeats an activity: a client, a random generator and a counter.
type worker struct {
	*client
	id    int
	rng   *rand.Rand
	turns int
	soak  *soak
}

// work repeats an activity until ctx ends.
func (s *soak) work(ctx context.Context, a activity, id int) {
	c, err := newClient(s.server.kubeconfig())
	if err != nil {
		s.fail(a.name, err)
		return
	}
	defer c.close()
	w := &worker{client: c, id: id, rng: rand.New(rand.NewPCG(uint64(id), 0)), soak: s}
	for ctx.Err() == nil {
		pause(ctx, time.Duration(w.rng.Int64N(int64(2*a.every))))
		away := s.server.away.Load()
		if away%2 == 1 {
			continue
		}
		w.turns++
		err := a.turn(ctx, w)
		s.turns.Add(1)
		if err != nil && ctx.Err() == nil && !s.server.excuses(away, err) {
			s.fail(a.name, err)
		}
	}
}

func (s *soak) fail(activity string, err error) {
	s.failures.Add(1)
	slog.Error("turn failed", "activity", activity, "error", err, "after", time.Since(s.began).Round(time.Second))
}

// observe takes samples and restarts the server until ctx ends.
func (s *soak) observe(ctx context.Context) error {
	table, err := createTable(s.config.csv)
	if err != nil {
		return err
	}
	defer table.close()
	c, err := newClient(s.server.kubeconfig())
	if err != nil {
		return err
	}
	defer c.close()
	next := time.Now().Add(s.config.restartEvery)
	for pause(ctx, s.config.sampleEvery); ctx.Err() == nil; pause(ctx, s.config.sampleEvery) {
		if err := s.observeOnce(ctx, c, table); err != nil {
			return ignoreEnd(ctx, err)
		}
		if time.Now().After(next) {
			s.restarts++
			if err := s.server.restart(ctx, s.restarts%2 == 0); err != nil {
				return ignoreEnd(ctx, err)
			}
			next = time.Now().Add(s.config.restartEvery)
		}
	}
	return nil
}

func (s *soak) observeOnce(ctx context.Context, c *client, table *table) error {
	sample, err := takeSample(ctx, s.server, c)
	if err != nil {
		return err
	}
	sample.seconds, sample.restarts = time.Since(s.began).Seconds(), s.restarts
	sample.turns, sample.failures = float64(s.turns.Load()), float64(s.failures.Load())
	s.samples = append(s.samples, sample)
	return table.write(sample.row())
}

func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (s *soak) draw() error {
	return os.WriteFile(s.config.svg, picture(s.samples), 0o600)
}

func (s *soak) verdict() error {
	if n := s.failures.Load(); n > 0 {
		return fmt.Errorf("%d of %d turns failed", n, s.turns.Load())
	}
	fmt.Printf("%d turns of activities, %d restarts, no failure\n", s.turns.Load(), s.restarts)
	return nil
}
