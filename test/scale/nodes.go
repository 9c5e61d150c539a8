package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// nodesConfig specifies a simulated cluster. The intervals are those of kubelets, and of published tests with
// 5,000 nodes, divided by speed.
type nodesConfig struct {
	binary, dir, options string
	nodes, podsPerNode   int
	churn                float64 // pods created and deleted per second
	measured             time.Duration
	speed                float64
}

const (
	leaseEvery  = 10 * time.Second
	statusEvery = 5 * time.Minute
	// podLife is the lifetime of a pod that is created and deleted during the measurement.
	podLife = 10 * time.Second
	// controllers is the number of simulated programs that have informers for all pods, nodes and leases.
	controllers = 4
)

// nodesCommand implements "scale nodes": it simulates the kubelets, a scheduler and the controllers of
// many nodes.
func nodesCommand(ctx context.Context, args []string) error {
	var config nodesConfig
	flags := flag.NewFlagSet("nodes", flag.ExitOnError)
	flags.StringVar(&config.binary, "binary", "mainstay", "path of the server's binary")
	flags.StringVar(&config.dir, "data-dir", "nodes-data", "data directory of the server")
	flags.StringVar(&config.options, "server-flags", "", "additional flags of the server, separated by spaces")
	flags.IntVar(&config.nodes, "nodes", 5000, "number of nodes")
	flags.IntVar(&config.podsPerNode, "pods-per-node", 30, "number of permanent pods on each node")
	flags.Float64Var(&config.churn, "churn", 20, "number of pods that are created and deleted per second")
	flags.DurationVar(&config.measured, "measured", time.Minute, "duration of the measurement")
	flags.Float64Var(&config.speed, "speed", 1, "frequency of heartbeats, as a multiple of a kubelet's")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return tryNodes(ctx, config)
}

// cluster is a running simulation.
type cluster struct {
	*experiment
	config   nodesConfig
	took     *latencies
	failures atomic.Int64
	clients  sync.WaitGroup
	// connected is closed when kubelets may start sending heartbeats.
	connected chan struct{}
	// scheduler is the client that binds pods, and controller is the client that creates them.
	scheduler, controller *client
}

func tryNodes(ctx context.Context, config nodesConfig) error {
	e, err := newExperiment(ctx, config.binary, config.dir, config.options)
	if err != nil {
		return err
	}
	defer e.close()
	c := &cluster{experiment: e, config: config, took: newLatencies(), connected: make(chan struct{})}
	c.scheduler = e.client.impersonating("system:kube-scheduler")
	c.controller = e.client.impersonating("system:serviceaccount:kube-system:replicaset-controller", "system:serviceaccounts", "system:serviceaccounts:kube-system")
	if err := c.fill(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer c.clients.Wait()
	defer cancel()
	if err := c.step(ctx, "kubelets connect", config.nodes, c.connect); err != nil {
		return err
	}
	close(c.connected)
	c.background(ctx)
	pause(ctx, 2*podLife) // until pods are deleted at the same rate as they are created
	c.took.reset()
	err = c.step(ctx, "heartbeats and churn", int(config.measured.Seconds()), func(ctx context.Context) error {
		pause(ctx, config.measured)
		return ctx.Err()
	})
	c.took.print()
	if n := c.failures.Load(); err == nil && n > 0 {
		return fmt.Errorf("%d requests failed", n)
	}
	return err
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

const (
	nodesPath  = "/api/v1/nodes"
	leasesPath = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
)

func podsPath(i int) string { return "/api/v1/namespaces/" + namespaceOf(i) + "/pods" }

// fill creates namespaces, nodes, leases and pods, unless they exist from an earlier run.
func (c *cluster) fill(ctx context.Context) error {
	last := c.config.nodes*c.config.podsPerNode - 1
	if _, err := c.client.get(ctx, fmt.Sprintf("%s/steady-%d", podsPath(last), last)); err == nil {
		return nil
	}
	for n := range namespaces {
		if err := c.client.create(ctx, "/api/v1/namespaces", namespaceObject(namespaceOf(n))); err != nil {
			return err
		}
		if err := c.client.await(ctx, "/api/v1/namespaces/"+namespaceOf(n)+"/serviceaccounts/default", true); err != nil {
			return err
		}
	}
	err := c.step(ctx, "create nodes, leases", c.config.nodes, func(ctx context.Context) error {
		return concurrently(ctx, c.config.nodes, 32, func(ctx context.Context, i int) error {
			if err := c.client.create(ctx, nodesPath, nodeObject(nodeName(i))); err != nil {
				return err
			}
			return c.client.create(ctx, leasesPath, leaseObject(nodeName(i), time.Now()))
		})
	})
	if err != nil {
		return err
	}
	pods := c.config.nodes * c.config.podsPerNode
	return c.step(ctx, "create pods", pods, func(ctx context.Context) error {
		return concurrently(ctx, pods, 64, func(ctx context.Context, i int) error {
			return c.client.create(ctx, podsPath(i), boundPodObject(fmt.Sprintf("steady-%d", i), nodeName(i%c.config.nodes)))
		})
	})
}

// connect opens the watches of kubelets and controllers, each with its own connection.
func (c *cluster) connect(ctx context.Context) error {
	watches := context.WithoutCancel(ctx)
	watches, end := context.WithCancel(watches)
	context.AfterFunc(ctx, end)
	err := concurrently(ctx, c.config.nodes, 16, func(ctx context.Context, i int) error { return c.kubelet(ctx, watches, i) })
	if err != nil {
		return err
	}
	for n := range controllers {
		of := c.client.another()
		for i, path := range []string{"/api/v1/pods", nodesPath, leasesPath} {
			if err := c.watch(watches, of, path+"?watch=true", n == 0 && i == 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// kubelet opens the watches of one node's kubelet.
func (c *cluster) kubelet(ctx, watches context.Context, i int) error {
	name := nodeName(i)
	kubelet := c.client.another().impersonating("system:node:"+name, "system:nodes")
	for _, path := range []string{
		nodesPath + "?watch=true&fieldSelector=metadata.name%3D" + name,
		"/api/v1/pods?watch=true&fieldSelector=spec.nodeName%3D" + name,
		"/api/v1/services?watch=true",
		"/apis/storage.k8s.io/v1/csidrivers?watch=true",
		"/apis/node.k8s.io/v1/runtimeclasses?watch=true",
	} {
		if err := c.watch(watches, kubelet, path, false); err != nil {
			return err
		}
	}
	c.clients.Go(func() {
		select {
		case <-c.connected:
			c.beat(watches, kubelet, i)
		case <-watches.Done():
		}
	})
	return nil
}

// watch opens a watch that starts at the current state, and reads its events. If timed is true, it records how
// old pods are when it receives them.
func (c *cluster) watch(ctx context.Context, of *client, path string, timed bool) error {
	r := request{method: http.MethodGet, path: path + "&allowWatchBookmarks=true&resourceVersion=0"}
	resp, err := of.send(ctx, r)
	for ; isCode(err, http.StatusTooManyRequests) && ctx.Err() == nil; resp, err = of.send(ctx, r) {
		pause(ctx, time.Second) // as clients do after Retry-After
	}
	if err != nil {
		return err
	}
	c.clients.Go(func() {
		defer resp.Body.Close()
		if timed {
			c.readAges(resp.Body)
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body) // ends with ctx
	})
	return nil
}

// readAges records how old a pod is when a watch first delivers it.
func (c *cluster) readAges(events io.Reader) {
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if !bytes.HasPrefix(lines.Bytes(), []byte(`{"type":"ADDED"`)) {
			continue
		}
		_, after, found := bytes.Cut(lines.Bytes(), []byte(`"sent":"`))
		if sent, err := time.Parse(time.RFC3339Nano, string(before(after, '"'))); found && err == nil {
			c.took.add("pod sent to watch event", time.Since(sent))
		}
	}
}

func before(text []byte, end byte) []byte {
	if i := bytes.IndexByte(text, end); i >= 0 {
		return text[:i]
	}
	return text
}

// beat sends the heartbeats of a node until ctx ends.
func (c *cluster) beat(ctx context.Context, kubelet *client, i int) {
	lease := time.Duration(float64(leaseEvery) / c.config.speed)
	status := time.Duration(float64(statusEvery) / c.config.speed)
	next := time.Now().Add(rand.N(status))
	for pause(ctx, rand.N(lease)); ctx.Err() == nil; pause(ctx, lease) {
		c.request(ctx, kubelet, "renew a lease", request{
			method: http.MethodPatch, path: leasesPath + "/" + nodeName(i), contentType: mergeType, body: leaseObject(nodeName(i), time.Now()),
		})
		if time.Now().After(next) {
			next = next.Add(status)
			c.request(ctx, kubelet, "patch a node's status", request{
				method: http.MethodPatch, path: nodesPath + "/" + nodeName(i) + "/status", contentType: strategicType, body: nodeStatusPatch(time.Now()),
			})
		}
	}
}

// request sends a request, records its latency or its failure, and reports whether it succeeded.
func (c *cluster) request(ctx context.Context, of *client, name string, r request) bool {
	err := c.took.timed(name, func() error {
		_, err := of.do(ctx, r)
		return err
	})
	if err != nil && ctx.Err() == nil {
		if c.failures.Add(1) <= 10 {
			fmt.Println("failed:", name, err)
		}
	}
	return err == nil
}

// background continuously creates and deletes pods, and runs other clients, until ctx ends.
func (c *cluster) background(ctx context.Context) {
	every := func(d time.Duration, do func(n int)) {
		c.clients.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				c.clients.Go(func() { do(n) })
				pause(ctx, d)
			}
		})
	}
	read := func(name, path, accept string) {
		c.request(ctx, c.scheduler, name, request{method: http.MethodGet, path: path, accept: accept})
	}
	every(time.Duration(float64(time.Second)/c.config.churn), func(n int) { c.passingPod(ctx, n) })
	every(100*time.Millisecond, func(n int) {
		i := rand.IntN(c.config.nodes * c.config.podsPerNode)
		read("get a pod", fmt.Sprintf("%s/steady-%d", podsPath(i), i), "")
	})
	every(500*time.Millisecond, func(n int) {
		read("list a node's pods", "/api/v1/pods?fieldSelector=spec.nodeName%3D"+nodeName(rand.IntN(c.config.nodes)), protobufAccept)
	})
	every(5*time.Second, func(n int) { read("list a namespace's pods", podsPath(n), protobufAccept) })
	every(20*time.Second, func(n int) { read("list all pods", "/api/v1/pods?resourceVersion=0", protobufAccept) })
}

// passingPod creates, binds, runs and deletes a pod. The requests come from the same clients as in a real
// cluster.
func (c *cluster) passingPod(ctx context.Context, n int) {
	node, name, path := nodeName(n%c.config.nodes), fmt.Sprintf("passing-%d-%d", time.Now().UnixNano(), n), podsPath(n)
	kubelet := c.client.impersonating("system:node:"+node, "system:nodes")
	pod := podObject(name, n)
	pod["metadata"].(fieldsOf)["annotations"] = fieldsOf{"sent": time.Now().Format(time.RFC3339Nano)}
	one := path + "/" + name
	phase := func(phase string) request {
		return request{method: http.MethodPatch, path: one + "/status", contentType: strategicType, body: fieldsOf{"status": fieldsOf{"phase": phase}}}
	}
	_ = c.request(ctx, c.controller, "create a pod", request{method: http.MethodPost, path: path, body: pod}) &&
		c.request(ctx, c.scheduler, "bind a pod", request{method: http.MethodPost, path: one + "/binding", body: bindingObject(name, node)}) &&
		c.request(ctx, kubelet, "patch a pod's status", phase("Running")) &&
		c.lives(ctx) &&
		c.request(ctx, c.controller, "delete a pod", request{method: http.MethodDelete, path: one}) &&
		c.request(ctx, kubelet, "patch a pod's status", phase("Succeeded")) &&
		c.request(ctx, kubelet, "delete a pod at once", request{method: http.MethodDelete, path: one + "?gracePeriodSeconds=0"})
}

// lives waits for the lifetime of a pod. It returns false if ctx ends first.
func (c *cluster) lives(ctx context.Context) bool {
	pause(ctx, podLife)
	return ctx.Err() == nil
}
