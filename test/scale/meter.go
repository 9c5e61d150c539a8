package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// experiment is a running server whose resource usage is measured.
type experiment struct {
	server *server
	client *client
}

// newExperiment starts a server and prints the header of the table of results.
func newExperiment(ctx context.Context, binary, dir, flags string) (*experiment, error) {
	srv, err := newServer(binary, dir, strings.Fields(flags)...)
	if err != nil {
		return nil, err
	}
	e := &experiment{server: srv}
	fmt.Printf(rowFormat, "", "units", "clock s", "CPU s", "each µs", "heap MiB", "each B", "anon MiB", "peak MiB")
	if err := e.restarted(ctx, "start", srv.start); err != nil {
		return nil, err
	}
	e.client, err = newClient(srv.kubeconfig())
	if err != nil {
		srv.kill()
	}
	return e, err
}

// close kills the server. It is called at the end of the experiment.
func (e *experiment) close() {
	e.server.kill()
}

// restarted runs a function that starts the server and prints the startup cost.
func (e *experiment) restarted(ctx context.Context, name string, start func(context.Context) (time.Duration, error)) error {
	took, err := start(ctx)
	if err != nil {
		return err
	}
	use, err := usageOf(e.server.cmd.Process.Pid)
	if err != nil {
		return err
	}
	fmt.Printf(rowFormat, name, "", seconds(took), seconds(use.cpu), "", "", "", mebibytes(use.anonymous), mebibytes(use.peak))
	return nil
}

// again restarts the server with the same data directory, and prints the startup cost.
func (e *experiment) again(ctx context.Context, name string) error {
	if err := e.server.stop(); err != nil {
		return err
	}
	e.client.close()
	return e.restarted(ctx, name, e.server.start)
}

// step runs a function that processes the given number of units, and prints the cost per unit. Memory is
// measured after a garbage collection.
func (e *experiment) step(ctx context.Context, name string, units int, do func(context.Context) error) error {
	heap, err := e.collect(ctx)
	if err != nil {
		return err
	}
	before, err := usageOf(e.server.cmd.Process.Pid)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := do(ctx); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	took := time.Since(began)
	after, err := usageOf(e.server.cmd.Process.Pid)
	if err != nil {
		return err
	}
	left, err := e.collect(ctx)
	if err != nil {
		return err
	}
	cpu := after.cpu - before.cpu
	each := func(total float64) string { return fmt.Sprintf("%.0f", total/float64(units)) }
	fmt.Printf(rowFormat, name, fmt.Sprint(units), seconds(took), seconds(cpu), each(float64(cpu.Microseconds())),
		mebibytes(left), each(left-heap), mebibytes(after.anonymous), mebibytes(after.peak))
	return nil
}

// rowFormat is the format of a table row: its name and measurements.
const rowFormat = "%-24s %8s %8s %8s %9s %9s %9s %9s %9s\n"

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }

func mebibytes(n float64) string { return fmt.Sprintf("%.1f", n/mebi) }

// collect makes the server collect garbage, and returns the size of its live heap in bytes.
func (e *experiment) collect(ctx context.Context) (float64, error) {
	if err := collectGarbage(ctx, e.client); err != nil {
		return 0, err
	}
	metrics, err := readMetrics(ctx, e.client, "go_gc_heap_live_bytes")
	return metrics["go_gc_heap_live_bytes"], err
}

func collectGarbage(ctx context.Context, c *client) error {
	_, err := c.get(ctx, "/debug/pprof/heap?gc=1")
	return err
}

// concurrently calls do with the numbers from 0 to n-1, with at most atOnce calls at a time. It stops at the
// first error.
func concurrently(ctx context.Context, n, atOnce int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range atOnce {
		group.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	return group.Wait()
}

// try is one run of an experiment, with n units.
type try struct {
	binary, dir, options string
	n                    int
}

// curve parses args and runs an experiment three times, each time with ten times as many units as before. The
// caller may already have defined flags of the experiment.
func curve(ctx context.Context, flags *flag.FlagSet, args []string, largest int, do func(context.Context, try) error) error {
	var t try
	flags.StringVar(&t.binary, "binary", "mainstay", "path of the server's binary")
	flags.StringVar(&t.dir, "data-dir", flags.Name()+"-data", "prefix of the data directories of the servers")
	flags.StringVar(&t.options, "server-flags", "", "additional flags of the server, separated by spaces")
	number := flags.Int("number", largest, "number of units in the last run; the earlier runs have a hundredth and a tenth of it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir := t.dir
	for _, t.n = range []int{*number / 100, *number / 10, *number} {
		t.dir = fmt.Sprintf("%s-%d", dir, t.n)
		if err := do(ctx, t); err != nil {
			return err
		}
	}
	return nil
}
