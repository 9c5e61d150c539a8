package http2

import (
	"sync"
	"time"
)

// A job is a unit of work: a handler, or a write of pending data.
type job interface{ run() }

const (
	maxIdleWorkers = 512
	workerIdleTime = 10 * time.Second
)

// workers is a pool of reusable goroutines. Reuse keeps their grown stacks. The most recently used
// idle worker runs the next job. Workers that are idle for workerIdleTime end, and all idle workers
// end with the last connection.
type workers struct {
	mu     sync.Mutex
	idle   []chan job
	unused int // number of workers that have been idle since the timer was set
	timer  *time.Timer
	conns  int
}

func (w *workers) open() {
	w.mu.Lock()
	w.conns++
	w.mu.Unlock()
}

func (w *workers) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conns--; w.conns == 0 {
		w.drop(len(w.idle))
	}
}

// start runs j on another goroutine. It does not block.
func (w *workers) start(j job) {
	w.mu.Lock()
	n := len(w.idle) - 1
	if n < 0 {
		w.mu.Unlock()
		go w.work(j) // ends when it is not needed for a while
		return
	}
	jobs := w.idle[n]
	w.idle[n] = nil
	w.idle = w.idle[:n]
	w.unused = min(w.unused, n)
	w.mu.Unlock()
	jobs <- j
}

func (w *workers) work(j job) {
	jobs := make(chan job, 1)
	for {
		j.run()
		if !w.park(jobs) {
			return
		}
		var ok bool
		if j, ok = <-jobs; !ok {
			return
		}
	}
}

// park adds a worker to the idle list. It returns false if the worker is not needed and must end.
func (w *workers) park(jobs chan job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.idle) >= maxIdleWorkers || w.conns == 0 {
		return false
	}
	w.idle = append(w.idle, jobs)
	if w.timer == nil {
		w.unused = len(w.idle)
		w.timer = time.AfterFunc(workerIdleTime, w.trim)
	}
	return true
}

// trim ends the workers that have been idle since the last call.
func (w *workers) trim() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(min(w.unused, len(w.idle)))
	w.unused = len(w.idle)
	if w.timer != nil {
		w.timer.Reset(workerIdleTime)
	}
}

// drop ends the n workers that have been idle for the longest time.
func (w *workers) drop(n int) {
	for _, jobs := range w.idle[:n] {
		close(jobs)
	}
	w.idle = append(w.idle[:0:0], w.idle[n:]...)
	if len(w.idle) == 0 && w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}
