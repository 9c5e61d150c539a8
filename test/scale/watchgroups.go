package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// perGroup is the number of watches of each object.
	perGroup = 10
	// watchWriters is the number of requests that are sent concurrently.
	watchWriters = 16
)

// watchGroups consists of n objects, each with its own watches.
type watchGroups struct {
	n        int
	setUp    func(i int) []creation // the objects that must exist
	path     func(i int) string     // of the object that is changed
	query    func(i int) string     // path and query of the watches
	observed *observed
}

// creation is an object to be created.
type creation struct{ path, body string }

func watchGroupsBy(by string, n int) (*watchGroups, error) {
	g := &watchGroups{n: n, observed: newObserved()}
	const maps = "/api/v1/namespaces/default/configmaps"
	configMap := func(i int) creation {
		return creation{maps, fmt.Sprintf(`{"metadata":{"name":"scale-%d","labels":{"group":"g%d"}},"data":{"text":%q}}`, i, i, strings.Repeat("x", 200))}
	}
	g.setUp = func(i int) []creation { return []creation{configMap(i)} }
	g.path = func(i int) string { return fmt.Sprintf("%s/scale-%d", maps, i) }
	switch by {
	case "name":
		g.query = func(i int) string { return fmt.Sprintf("%s?fieldSelector=metadata.name%%3Dscale-%d", maps, i) }
	case "label":
		g.query = func(i int) string { return fmt.Sprintf("/api/v1/configmaps?labelSelector=group%%3Dg%d", i) }
	case "namespace":
		in := func(i int) string { return fmt.Sprintf("/api/v1/namespaces/scale-%d/configmaps", i) }
		g.setUp = func(i int) []creation {
			return []creation{{"/api/v1/namespaces", fmt.Sprintf(`{"metadata":{"name":"scale-%d"}}`, i)}, {in(i), configMap(i).body}}
		}
		g.path = func(i int) string { return fmt.Sprintf("%s/scale-%d", in(i), i) }
		g.query = func(i int) string { return in(i) + "?" }
	case "field":
		const pods = "/api/v1/namespaces/default/pods"
		g.setUp = func(i int) []creation {
			return []creation{{pods, fmt.Sprintf(`{"metadata":{"name":"scale-%d"},"spec":{"nodeName":"node-%d","automountServiceAccountToken":false,"containers":[{"name":"c","image":"i"}]}}`, i, i)}}
		}
		g.path = func(i int) string { return fmt.Sprintf("%s/scale-%d", pods, i) }
		g.query = func(i int) string { return fmt.Sprintf("/api/v1/pods?fieldSelector=spec.nodeName%%3Dnode-%d", i) }
	default:
		return nil, fmt.Errorf("--by=%s: it is one of namespace, name, field, label", by)
	}
	return g, nil
}

// create creates the objects, unless they exist.
func (g *watchGroups) create(ctx context.Context, c *client) error {
	return concurrently(ctx, g.n, watchWriters, func(ctx context.Context, i int) error {
		for _, o := range g.setUp(i) {
			if err := c.create(ctx, o.path, []byte(o.body)); err != nil && !isCode(err, http.StatusConflict) {
				return err
			}
		}
		return nil
	})
}

// watch opens the watches. The watches on one connection belong to different groups.
func (g *watchGroups) watch(ctx context.Context, c *client, connections, each int) error {
	return concurrently(ctx, connections, watchWriters, func(_ context.Context, n int) error {
		connection := c.another()
		for i := range each {
			path := g.query((n*each+i)%g.n) + "&watch=true&resourceVersion=0"
			response, err := connection.send(ctx, request{method: http.MethodGet, path: path}) // the watch outlives this function
			if err != nil {
				return err
			}
			go g.read(response) // ends with the server or this program
		}
		return nil
	})
}

// read reads the events of a watch, and records the delay between each change and its event.
func (g *watchGroups) read(response *http.Response) {
	defer response.Body.Close()
	lines := bufio.NewReaderSize(response.Body, 64)
	for {
		var line []byte
		for more := true; more; {
			part, prefix, err := lines.ReadLine()
			if err != nil {
				return
			}
			line, more = append(line, part...), prefix
		}
		var event struct {
			Type   string
			Object struct {
				Metadata struct{ Annotations map[string]string }
			}
		}
		if json.Unmarshal(line, &event) != nil {
			continue
		}
		if at, err := strconv.ParseInt(event.Object.Metadata.Annotations["at"], 10, 64); err == nil && event.Type == "MODIFIED" {
			g.observed.add(time.Since(time.Unix(0, at)))
		}
	}
}

// change changes objects at the given rate, in changes per second. It returns the number of changes, and how
// many of them started late.
func (g *watchGroups) change(ctx context.Context, c *client, rate int, length time.Duration) (made, late int, err error) {
	all, ctx := errgroup.WithContext(ctx)
	due := make(chan int)
	var delayed atomic.Int64
	for range watchWriters {
		all.Go(func() error {
			for i := range due {
				body := fmt.Sprintf(`{"metadata":{"annotations":{"at":"%d"}}}`, time.Now().UnixNano())
				if _, err := c.do(ctx, request{method: http.MethodPatch, path: g.path(i % g.n), contentType: mergeType, body: []byte(body)}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	began := time.Now()
	for ; time.Since(began) < length && ctx.Err() == nil; made++ {
		at := began.Add(time.Duration(made) * time.Second / time.Duration(rate))
		time.Sleep(time.Until(at))
		if time.Since(at) > 100*time.Millisecond {
			delayed.Add(1)
		}
		select {
		case due <- made * 7919: // a prime, to distribute the changes over all groups
		case <-ctx.Done():
		}
	}
	close(due)
	return made, int(delayed.Load()), all.Wait()
}
