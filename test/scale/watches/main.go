// Command watches opens many watches at a server, of which each ten are of the same object,
// and changes those objects, to find out what a watch costs that waits, and what a change
// costs of which a few of many watches are told: docs/scale.md has the figures.
//
//	mainstay serve --data-dir=D
//	go run ./test/scale/watches --kubeconfig=D/admin.kubeconfig --connections=1000 --watches=100
//
// The server should have a core of its own (taskset), as this program needs one.
//
// Imports: nothing of ours.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// config is what the flags say.
type config struct {
	kubeconfig           string
	connections, watches int // watches of each connection
	by                   string
	rate                 int // changes a second
	length               time.Duration
	hold                 time.Duration
}

func main() {
	var c config
	flag.StringVar(&c.kubeconfig, "kubeconfig", "mainstay-data/admin.kubeconfig", "file with an administrator's credentials")
	flag.IntVar(&c.connections, "connections", 1000, "how many connections to open")
	flag.IntVar(&c.watches, "watches", 100, "how many watches each of them has")
	flag.StringVar(&c.by, "by", "name", "what watches select by: namespace, name, field or label")
	flag.IntVar(&c.rate, "changes", 1000, "changes a second; 0: none")
	flag.DurationVar(&c.length, "for", 20*time.Second, "how long changes are made")
	flag.DurationVar(&c.hold, "hold", 0, "how long the watches stay open at the end, to be looked at")
	flag.Parse()
	if err := c.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "watches:", err)
		os.Exit(1)
	}
}

func (c *config) run(ctx context.Context) error {
	server, err := connect(c.kubeconfig)
	if err != nil {
		return err
	}
	groups, err := groupsBy(c.by, max(1, c.connections*c.watches/perGroup))
	if err != nil {
		return err
	}
	began := time.Now()
	if err := groups.create(ctx, server); err != nil {
		return err
	}
	fmt.Printf("%d objects made in %s\n", groups.n, time.Since(began).Round(time.Millisecond))
	if err := c.open(ctx, server, groups); err != nil {
		return err
	}
	if c.rate > 0 {
		if err := c.change(ctx, server, groups); err != nil {
			return err
		}
	}
	time.Sleep(c.hold)
	return nil
}

// open opens the watches and says what each takes.
func (c *config) open(ctx context.Context, server *server, groups *groups) error {
	before, err := server.usage(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := groups.watch(ctx, server, c.connections, c.watches); err != nil {
		return err
	}
	took := time.Since(began)
	opened, err := server.usage(ctx)
	if err != nil {
		return err
	}
	time.Sleep(10 * time.Second) // stacks become smaller, and buffers are let go
	after, err := server.usage(ctx)
	if err != nil {
		return err
	}
	n := float64(c.connections * c.watches)
	fmt.Printf("%.0f watches on %d connections opened in %s, %.0f µs of CPU each\n", n, c.connections, took.Round(time.Millisecond), (opened.cpu-before.cpu)/n*1e6)
	each := func(of func(usage) float64) float64 { return (of(after) - of(before)) / n / 1024 }
	fmt.Printf("KiB for each: %.1f resident, %.1f heap, %.1f stacks, %.1f in use by Go\n",
		each(func(u usage) float64 { return u.resident }), each(func(u usage) float64 { return u.heap }),
		each(func(u usage) float64 { return u.stacks }), each(func(u usage) float64 { return u.used }))
	fmt.Printf("%.0f goroutines, %.0f MiB resident, %.0f before\n", after.goroutines, after.resident/(1<<20), before.resident/(1<<20))
	return nil
}

// change makes changes and says what each took.
func (c *config) change(ctx context.Context, server *server, groups *groups) error {
	before, err := server.usage(ctx)
	if err != nil {
		return err
	}
	groups.observed.start()
	changes, late, err := groups.change(ctx, server, c.rate, c.length)
	if err != nil {
		return err
	}
	wanted := int64(changes * perGroup)
	for end := time.Now().Add(10 * time.Second); groups.observed.n.Load() < wanted && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
	after, err := server.usage(ctx)
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

// observed is the times from a change to its events.
type observed struct {
	n     atomic.Int64
	on    atomic.Bool
	times chan time.Duration
	done  chan []time.Duration
}

func newObserved() *observed {
	return &observed{times: make(chan time.Duration, 1<<16), done: make(chan []time.Duration, 1)}
}

func (o *observed) start() {
	o.n.Store(0)
	o.on.Store(true)
	go func() { // ends with stop
		var all []time.Duration
		for t := range o.times {
			if t < 0 {
				break
			}
			all = append(all, t)
		}
		o.done <- all
	}()
}

func (o *observed) add(t time.Duration) {
	if o.on.Load() {
		o.n.Add(1)
		o.times <- t
	}
}

// stop returns the times in order.
func (o *observed) stop() []time.Duration {
	o.on.Store(false)
	o.times <- -1
	all := <-o.done
	slices.Sort(all)
	return all
}
