package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// columns lists the columns of the table, which are the fields of a sample in order.
var columns = [...]string{"seconds", "restarts", "rss", "heap", "goroutines", "fds", "store", "cpu", "turns", "failures"}

// sample is the resource usage of the server at one point in time.
type sample struct {
	seconds         float64 // since the start of the soak
	restarts        int     // number of restarts so far; every second one used SIGKILL
	rss             float64 // anonymous memory, in bytes
	heap            float64 // after the last garbage collection
	goroutines, fds float64
	store           float64 // bytes of files
	cpu             float64 // of the server process, in seconds
	turns, failures float64
}

func (s *sample) values() []float64 {
	return []float64{s.seconds, float64(s.restarts), s.rss, s.heap, s.goroutines, s.fds, s.store, s.cpu, s.turns, s.failures}
}

func (s *sample) row() []string {
	var row []string
	for _, value := range s.values() {
		row = append(row, strconv.FormatFloat(value, 'f', -1, 64))
	}
	return row
}

// takeSample reads the resource usage of the server from its metrics and from the kernel.
func takeSample(ctx context.Context, s *server, c *client) (*sample, error) {
	metrics, err := readMetrics(ctx, c, "go_gc_heap_live_bytes", "go_goroutines")
	if err != nil {
		return nil, err
	}
	use, err := usageOf(s.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	store, err := sizeOf(filepath.Join(s.dir, "store"))
	if err != nil {
		return nil, err
	}
	return &sample{
		rss: use.anonymous, heap: metrics["go_gc_heap_live_bytes"], goroutines: metrics["go_goroutines"],
		fds: use.fds, store: store, cpu: use.cpu.Seconds(),
	}, nil
}

// readMetrics returns the values of the metrics with the given names. The metrics must have no labels.
func readMetrics(ctx context.Context, c *client, names ...string) (map[string]float64, error) {
	text, err := c.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	values := map[string]float64{}
	for _, name := range names {
		_, after, found := bytes.Cut(text, []byte("\n"+name+" "))
		if !found {
			return nil, fmt.Errorf("the server has no metric %s", name)
		}
		number, _, _ := bytes.Cut(after, []byte("\n"))
		if values[name], err = strconv.ParseFloat(string(number), 64); err != nil {
			return nil, fmt.Errorf("read the metric %s: %w", name, err)
		}
	}
	return values, nil
}

// usage is the resource usage of a process, as reported by the kernel.
type usage struct {
	anonymous float64 // bytes
	peak      float64 // maximum so far, in bytes, including files
	fds       float64
	cpu       time.Duration
}

// ticksPerSecond is the unit of the CPU times in /proc/PID/stat. It is the same on all Linux systems.
const ticksPerSecond = 100

func usageOf(pid int) (*usage, error) {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		return nil, fmt.Errorf("read the resource usage of the server, which is only supported on Linux: %w", err)
	}
	stat, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return nil, err
	}
	fds, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		return nil, err
	}
	ticks := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var sum float64
	for _, field := range ticks[11:13] { // utime and stime
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return nil, fmt.Errorf("read the processor time of %d: %w", pid, err)
		}
		sum += n
	}
	return &usage{
		anonymous: kibibytes(status, "RssAnon:"), peak: kibibytes(status, "VmHWM:"),
		fds: float64(len(fds)), cpu: time.Duration(sum / ticksPerSecond * float64(time.Second)),
	}, nil
}

// kibibytes returns the value of a line of /proc/PID/status, which is in KiB, in bytes.
func kibibytes(status []byte, name string) float64 {
	lines := bufio.NewScanner(bytes.NewReader(status))
	for lines.Scan() {
		if f := strings.Fields(lines.Text()); len(f) > 1 && f[0] == name {
			n, _ := strconv.ParseFloat(f[1], 64) // the kernel writes numbers
			return n * 1024
		}
	}
	return 0
}

// sizeOf returns the total size of the files in a folder, in bytes. Files may be removed during the call.
func sizeOf(dir string) (float64, error) {
	var sum float64
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return ignoreMissing(err)
		}
		info, err := entry.Info()
		if err != nil {
			return ignoreMissing(err)
		}
		sum += float64(info.Size())
		return nil
	})
	return sum, err
}

func ignoreMissing(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

// table is a CSV file to which samples are written one by one.
type table struct {
	file *os.File
	csv  *csv.Writer
}

func createTable(path string) (*table, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	t := &table{file, csv.NewWriter(file)}
	return t, t.write(columns[:])
}

func (t *table) write(row []string) error {
	if err := t.csv.Write(row); err != nil {
		return err
	}
	t.csv.Flush()
	return t.csv.Error()
}

func (t *table) close() error { return t.file.Close() }
