package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"
)

// watchConfig contains the flags of "scale watches".
type watchConfig struct {
	kubeconfig           string
	connections, watches int // watches of each connection
	by                   string
	rate                 int // changes a second
	length               time.Duration
	hold                 time.Duration
}

// watchesCommand implements "scale watches". It opens many watches, ten for each object, and changes these
// objects. It measures the cost of an idle watch, and the cost of a change that affects few of many watches.
// The server must already be running on its own core (taskset), because this process also needs a core.
func watchesCommand(ctx context.Context, args []string) error {
	var c watchConfig
	flags := flag.NewFlagSet("watches", flag.ExitOnError)
	flags.StringVar(&c.kubeconfig, "kubeconfig", "mainstay-data/admin.kubeconfig", "file with an administrator's credentials")
	flags.IntVar(&c.connections, "connections", 1000, "number of connections")
	flags.IntVar(&c.watches, "watches", 100, "number of watches on each connection")
	flags.StringVar(&c.by, "by", "name", "how watches select objects: by namespace, name, field or label")
	flags.IntVar(&c.rate, "changes", 1000, "number of changes per second; 0 disables changes")
	flags.DurationVar(&c.length, "for", 20*time.Second, "duration of the changes")
	flags.DurationVar(&c.hold, "hold", 0, "how long the watches stay open at the end, for inspection of the server")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if c.connections < 1 || c.watches < 1 {
		return errors.New("there is nothing to measure without connections and watches")
	}
	client, err := newClient(c.kubeconfig)
	if err != nil {
		return err
	}
	return c.run(ctx, client)
}

func (c *watchConfig) run(ctx context.Context, client *client) error {
	groups, err := watchGroupsBy(c.by, max(1, c.connections*c.watches/perGroup))
	if err != nil {
		return err
	}
	began := time.Now()
	if err := groups.create(ctx, client); err != nil {
		return err
	}
	fmt.Printf("%d objects made in %s\n", groups.n, time.Since(began).Round(time.Millisecond))
	if err := c.open(ctx, client, groups); err != nil {
		return err
	}
	if c.rate > 0 {
		if err := c.change(ctx, client, groups); err != nil {
			return err
		}
	}
	pause(ctx, c.hold)
	return nil
}

// open opens the watches and prints the cost of one watch.
func (c *watchConfig) open(ctx context.Context, client *client, groups *watchGroups) error {
	before, err := readAccount(ctx, client)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := groups.watch(ctx, client, c.connections, c.watches); err != nil {
		return err
	}
	took := time.Since(began)
	opened, err := readAccount(ctx, client)
	if err != nil {
		return err
	}
	pause(ctx, 10*time.Second) // until stacks have shrunk and buffers are released
	after, err := readAccount(ctx, client)
	if err != nil {
		return err
	}
	n := float64(c.connections * c.watches)
	fmt.Printf("%.0f watches on %d connections opened in %s, %.0f µs of CPU each\n", n, c.connections, took.Round(time.Millisecond), (opened.cpu-before.cpu)/n*1e6)
	each := func(of func(*account) float64) float64 { return (of(after) - of(before)) / n / 1024 }
	fmt.Printf("KiB for each: %.1f resident, %.1f heap, %.1f stacks, %.1f in use by Go\n",
		each(func(a *account) float64 { return a.resident }), each(func(a *account) float64 { return a.heap }),
		each(func(a *account) float64 { return a.stacks }), each(func(a *account) float64 { return a.heap + a.stacks }))
	fmt.Printf("%.0f goroutines, %.0f MiB resident, %.0f before\n", after.goroutines, after.resident/(1<<20), before.resident/(1<<20))
	return nil
}

// change changes objects and prints the cost of one change.
func (c *watchConfig) change(ctx context.Context, client *client, groups *watchGroups) error {
	before, err := readAccount(ctx, client)
	if err != nil {
		return err
	}
	groups.observed.start()
	changes, late, err := groups.change(ctx, client, c.rate, c.length)
	if err != nil {
		return err
	}
	wanted := int64(changes * perGroup)
	for end := time.Now().Add(10 * time.Second); groups.observed.n.Load() < wanted && time.Now().Before(end); {
		pause(ctx, 50*time.Millisecond)
	}
	after, err := readAccount(ctx, client)
	if err != nil {
		return err
	}
	times := groups.observed.stop()
	fmt.Printf("%d changes in %s, %d events of %d; %.0f µs of CPU for each change, %.1f %% of a core\n", changes, c.length,
		len(times), wanted, (after.cpu-before.cpu)/float64(changes)*1e6, (after.cpu-before.cpu)/c.length.Seconds()*100)
	if len(times) > 0 {
		fmt.Printf("from the request to each event: %s half of them, %s 99 of 100, %s all; changes not made in time: %d\n",
			times[len(times)/2].Round(time.Microsecond), times[len(times)*99/100].Round(time.Microsecond), times[len(times)-1].Round(time.Microsecond), late)
	}
	return nil
}

// account is the resource usage that the server reports, in seconds, bytes, and number of goroutines.
type account struct{ cpu, resident, heap, stacks, goroutines float64 }

// readAccount reads the resource usage of the server after a garbage collection.
func readAccount(ctx context.Context, c *client) (*account, error) {
	for range 2 { // the second collection frees the finalized objects
		if err := collectGarbage(ctx, c); err != nil {
			return nil, err
		}
	}
	const cpu, resident, heap, stacks, goroutines = "process_cpu_seconds_total", "process_resident_memory_bytes", "go_memstats_heap_alloc_bytes", "go_memstats_stack_inuse_bytes", "go_goroutines"
	values, err := readMetrics(ctx, c, cpu, resident, heap, stacks, goroutines)
	if err != nil {
		return nil, err
	}
	return &account{values[cpu], values[resident], values[heap], values[stacks], values[goroutines]}, nil
}
