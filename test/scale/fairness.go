package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// fairness is the experiment of "scale fairness". It measures the latency of one client's gets while other
// clients keep the server busy. The server and the clients have one core each.
type fairness struct {
	binary, dir, options    string
	serverCore, clientCore  string
	pods, clients, creates  int
	length                  time.Duration
	bursts                  int
	kinds                   string
	controlPlanes           bool
	concurrent              int
	kubeconfig, bulk, label string // of the child process that runs the other clients
}

// fairnessCommand implements "scale fairness". If --bulk is set, this process is the child of an experiment and
// runs the other clients.
func fairnessCommand(ctx context.Context, args []string) error {
	var f fairness
	flags := flag.NewFlagSet("fairness", flag.ExitOnError)
	flags.StringVar(&f.binary, "binary", "mainstay", "path of the server's binary")
	flags.StringVar(&f.dir, "data-dir", "fairness-data", "data directory of the server")
	flags.StringVar(&f.options, "server-flags", "", "additional flags of the server, separated by spaces")
	flags.StringVar(&f.serverCore, "server-core", "0", "processor of the server, as an argument of taskset")
	flags.StringVar(&f.clientCore, "client-core", "1", "processor of the clients, as an argument of taskset")
	flags.IntVar(&f.pods, "pods", 10_000, "number of pods, of 4 KiB each")
	flags.IntVar(&f.clients, "clients", 50, "number of other clients, which list or create pods")
	flags.IntVar(&f.creates, "creates", 5000, "number of concurrent creates in a burst")
	flags.IntVar(&f.bursts, "bursts", 3, "number of bursts of creates")
	flags.StringVar(&f.kinds, "kinds", "lists,lists/1.1,creates", "requests of the other clients, one kind after another: lists, lists/1.1, gets or creates")
	flags.BoolVar(&f.controlPlanes, "control-planes", false, "let the measured client and the other clients use different control planes")
	flags.IntVar(&f.concurrent, "concurrent-requests", 0, "spec.limits.concurrentRequests of the control plane of the other clients; 0 is the default")
	flags.DurationVar(&f.length, "for", 10*time.Second, "duration of a measurement")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of a running server, for --bulk")
	flags.StringVar(&f.bulk, "bulk", "", "run only the other clients, with this kind of requests: lists, lists/1.1, gets or creates")
	flags.StringVar(&f.label, "label", "bulk", "prefix of the names of created pods")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if f.bulk != "" {
		return f.makeBulk(ctx)
	}
	return f.run(ctx)
}

const (
	// readNamespace contains the pods that clients read. writeNamespace contains the pods that clients create.
	readNamespace  = "read"
	writeNamespace = "written"
	// politeness is the nice value of the process with the other clients. It prevents this process from
	// delaying the measured client.
	politeness = 19
	// getEvery is the pause between a response and the next get.
	getEvery = 2 * time.Millisecond
)

func podsIn(namespace string) string { return "/api/v1/namespaces/" + namespace + "/pods" }

// ordinaryPod returns a pod of about 4 KiB in JSON.
func ordinaryPod(name string) any {
	pod := podObject(name, 0)
	pod["metadata"].(fieldsOf)["annotations"] = fieldsOf{"example.com/notes": strings.Repeat("what pods carry about with them; ", 95)}
	return pod
}

func (f *fairness) run(ctx context.Context) error {
	pin := exec.Command("taskset", "-a", "-c", "-p", f.clientCore, strconv.Itoa(os.Getpid()))
	if out, err := pin.CombinedOutput(); err != nil {
		return fmt.Errorf("have processor %s: %w: %s", f.clientCore, err, out)
	}
	srv, err := newServer(f.binary, f.dir, strings.Fields(f.options)...)
	if err != nil {
		return err
	}
	srv.under = []string{"taskset", "-c", f.serverCore}
	if _, err := srv.start(ctx); err != nil {
		return err
	}
	defer srv.kill()
	f.kubeconfig = srv.kubeconfig()
	measured := f.kubeconfig
	if f.controlPlanes {
		if measured, err = f.createControlPlanes(ctx); err != nil {
			return err
		}
	}
	client, err := newClient(measured)
	if err != nil {
		return err
	}
	if err := f.fill(ctx, client); err != nil {
		return err
	}
	m := &getMeter{client: client, server: srv.cmd.Process.Pid}
	fmt.Printf(meterFormat, "gets", "n", "p50 ms", "p99 ms", "most ms", "server CPU", "its wait", "bulk done")
	for _, bulk := range append([]string{""}, strings.Split(f.kinds, ",")...) {
		if err := f.measure(ctx, m, bulk); err != nil {
			return err
		}
	}
	return nil
}

// createControlPlanes creates a control plane for the measured client, and one for the other clients, in which
// it creates the pods that they list. It returns the path of the measured client's kubeconfig.
func (f *fairness) createControlPlanes(ctx context.Context) (measured string, err error) {
	root, err := newClient(f.kubeconfig)
	if err != nil {
		return "", err
	}
	measured, f.kubeconfig = f.dir+"-measured.kubeconfig", f.dir+"-others.kubeconfig"
	limits := fieldsOf{}
	if f.concurrent > 0 {
		limits["concurrentRequests"] = f.concurrent
	}
	if err := root.createControlPlane(ctx, "measured", measured, fieldsOf{}); err != nil {
		return "", err
	}
	if err := root.createControlPlane(ctx, "others", f.kubeconfig, limits); err != nil {
		return "", err
	}
	others, err := newClient(f.kubeconfig)
	if err != nil {
		return "", err
	}
	return measured, f.fill(ctx, others)
}

// fill creates the pods that clients read, and lists them once.
func (f *fairness) fill(ctx context.Context, c *client) error {
	for _, namespace := range []string{readNamespace, writeNamespace} {
		if err := c.create(ctx, "/api/v1/namespaces", namespaceObject(namespace)); err != nil {
			return err
		}
		if err := c.await(ctx, "/api/v1/namespaces/"+namespace+"/serviceaccounts/default", true); err != nil {
			return err
		}
	}
	err := concurrently(ctx, f.pods, 16, func(ctx context.Context, i int) error {
		return c.create(ctx, podsIn(readNamespace), ordinaryPod(fmt.Sprintf("pod-%d", i)))
	})
	if err != nil {
		return err
	}
	_, err = c.get(ctx, podsIn(readNamespace))
	return err
}

// measure measures gets while another process runs the other clients, until this process ends. If bulk is
// empty, there are no other clients, and it measures for f.length.
func (f *fairness) measure(ctx context.Context, m *getMeter, bulk string) error {
	if bulk == "" {
		ctx, cancel := context.WithTimeout(ctx, f.length)
		defer cancel()
		return m.run(ctx, "alone", func() string { return "" })
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	child := exec.Command("nice", "-n", strconv.Itoa(politeness), self, "fairness", "--bulk="+bulk, "--kubeconfig="+f.kubeconfig, "--for="+f.length.String(),
		"--clients="+strconv.Itoa(f.clients), "--creates="+strconv.Itoa(f.creates), "--bursts="+strconv.Itoa(f.bursts))
	child.Stderr = os.Stderr
	output, err := child.StdoutPipe()
	if err != nil {
		return fmt.Errorf("connect to the other clients: %w", err)
	}
	if err := child.Start(); err != nil {
		return fmt.Errorf("start the other clients: %w", err)
	}
	lines := bufio.NewScanner(output)
	lines.Scan() // it has started
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var done string
	ended := make(chan struct{})
	go func() { // ends with the child
		defer close(ended)
		defer cancel()
		lines.Scan()
		done = lines.Text()
	}()
	err = m.run(ctx, "during "+bulk, func() string { <-ended; return done })
	return errors.Join(err, child.Wait())
}

// getMeter measures the latency of gets of one pod.
type getMeter struct {
	client *client
	server int // process ID of the server
}

const meterFormat = "%-18s %7s %8s %8s %8s %11s %10s   %s\n"

// run sends gets until ctx ends, and prints a row of results. The CPU time of the server, and the time for
// which its threads waited for a CPU, are percentages of the elapsed time.
func (m *getMeter) run(ctx context.Context, name string, done func() string) error {
	took := newLatencies()
	before, err := schedulingOf(m.server)
	if err != nil {
		return err
	}
	began := time.Now()
	for ctx.Err() == nil {
		err := took.timed("get", func() error {
			_, err := m.client.get(context.WithoutCancel(ctx), podsIn(readNamespace)+"/pod-7")
			return err
		})
		if err != nil {
			return err
		}
		pause(ctx, getEvery)
	}
	clock := time.Since(began)
	after, err := schedulingOf(m.server)
	if err != nil {
		return err
	}
	at := func(q float64) string { return fmt.Sprintf("%.2f", took.quantile("get", q).Seconds()*1000) }
	share := func(d time.Duration) string { return fmt.Sprintf("%.0f %%", 100*d.Seconds()/clock.Seconds()) }
	fmt.Printf(meterFormat, name, fmt.Sprint(len(took.taken["get"])), at(0.5), at(0.99), at(1), share(after.ran-before.ran), share(after.waited-before.waited), done())
	return nil
}

// scheduling contains the CPU time of a process and the time for which it waited for a CPU, as reported by the
// kernel.
type scheduling struct{ ran, waited time.Duration }

// schedulingOf returns the sums over all threads of a process.
func schedulingOf(pid int) (total scheduling, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return total, fmt.Errorf("find the server's threads: %w", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		var ran, waited int64
		if _, err := fmt.Sscan(string(text), &ran, &waited); err != nil {
			return total, fmt.Errorf("read %s: %w", file, err)
		}
		total.ran += time.Duration(ran)
		total.waited += time.Duration(waited)
	}
	return total, nil
}

// makeBulk runs the other clients. It prints one line at the start, and one line with the results at the end.
func (f *fairness) makeBulk(ctx context.Context) error {
	c, err := newClient(f.kubeconfig)
	if err != nil {
		return err
	}
	clients := make([]*client, f.clients)
	for i := range clients {
		clients[i] = c.another()
		if f.bulk == "lists/1.1" {
			clients[i].http.Transport.(*http.Transport).ForceAttemptHTTP2 = false
		}
		if _, err := clients[i].get(ctx, "/readyz"); err != nil { // connects
			return err
		}
	}
	switch f.bulk {
	case "creates":
		return f.makeCreates(ctx, clients)
	case "gets":
		return f.makeReads(ctx, clients, podsIn(readNamespace)+"/pod-7")
	}
	return f.makeReads(ctx, clients, podsIn(readNamespace)+"?resourceVersion=0")
}

// makeReads lets each client read a path repeatedly for f.length.
func (f *fairness) makeReads(ctx context.Context, clients []*client, path string) error {
	ctx, cancel := context.WithTimeout(ctx, f.length)
	defer cancel()
	fmt.Println("reads")
	began := time.Now()
	var done sync.WaitGroup
	bytes := make([]int64, len(clients))
	reads := make([]int, len(clients))
	for i, c := range clients {
		done.Go(func() {
			for ctx.Err() == nil {
				n, err := c.discard(ctx, path)
				bytes[i] += n
				if err == nil {
					reads[i]++
				}
			}
		})
	}
	done.Wait()
	sum, all, least := int64(0), 0, reads[0]
	for i := range clients {
		sum, all, least = sum+bytes[i], all+reads[i], min(least, reads[i])
	}
	fmt.Printf("%d reads, %.0f MiB/s, %d by the slowest\n", all, float64(sum)/mebi/time.Since(began).Seconds(), least)
	return nil
}

// discard gets a path and returns the size of the response body, in bytes.
func (c *client) discard(ctx context.Context, path string) (int64, error) {
	resp, err := c.send(ctx, request{method: http.MethodGet, path: path})
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return io.Copy(io.Discard, resp.Body)
}

// makeCreates lets all clients together send f.creates concurrent creates. After all responses have arrived, it
// repeats this, f.bursts times in total.
func (f *fairness) makeCreates(ctx context.Context, clients []*client) error {
	fmt.Println("creates")
	began := time.Now()
	for burst := range f.bursts {
		bodies := make([]request, f.creates)
		for i := range bodies {
			body := request{body: ordinaryPod(fmt.Sprintf("%s-%d-%d", f.label, burst, i))}
			data, err := body.encoded()
			if err != nil {
				return err
			}
			bodies[i] = request{method: http.MethodPost, path: podsIn(writeNamespace), body: data}
		}
		err := concurrently(ctx, f.creates, f.creates, func(ctx context.Context, i int) error {
			_, err := clients[i%len(clients)].do(ctx, bodies[i])
			return err
		})
		if err != nil {
			return err
		}
	}
	_, err := fmt.Printf("%d creates in %.1f s\n", f.creates*f.bursts, time.Since(began).Seconds())
	return cmp.Or(err, ctx.Err())
}
