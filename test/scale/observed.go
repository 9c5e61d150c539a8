package main

import (
	"slices"
	"sync/atomic"
	"time"
)

// observed collects the delays between changes and the resulting events.
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

// stop ends the observation and returns the sorted delays.
func (o *observed) stop() []time.Duration {
	o.on.Store(false)
	o.times <- -1
	all := <-o.done
	slices.Sort(all)
	return all
}
