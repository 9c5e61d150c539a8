package endpoints_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/rest"
)

// discard is a ResponseWriter that discards the body.
type discard struct {
	header http.Header
	code   int
	bytes  int
}

func (d *discard) Header() http.Header { return d.header }
func (d *discard) WriteHeader(code int) {
	d.code = code
}
func (d *discard) Write(p []byte) (int, error) { d.bytes += len(p); return len(p), nil }
func (d *discard) FlushError() error           { return nil }

// benchPod is a typical pod of a Deployment. NAME and NODE are placeholders.
const benchPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"NAME","namespace":"a","labels":{"app":"web","pod-template-hash":"5d59d67564"},
"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-5d59d67564","uid":"0b5d1d5e-5d5e-4c5e-9d5e-5d5e5d5e5d5e","controller":true,"blockOwnerDeletion":true}]},
"spec":{"nodeName":"NODE","containers":[{"name":"web","image":"registry.example.com/web:1.2.3","ports":[{"containerPort":8080,"protocol":"TCP"}],
"env":[{"name":"A","value":"1"},{"name":"B","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}],
"resources":{"requests":{"cpu":"100m","memory":"128Mi"},"limits":{"memory":"256Mi"}},
"livenessProbe":{"httpGet":{"path":"/healthz","port":8080},"periodSeconds":10},
"volumeMounts":[{"name":"config","mountPath":"/etc/web"},{"name":"token","mountPath":"/var/run/secrets","readOnly":true}]}],
"volumes":[{"name":"config","configMap":{"name":"web"}},{"name":"token","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}}]}}],
"serviceAccountName":"default","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","schedulerName":"default-scheduler"}}`

func podBody(name, node string) string {
	return strings.NewReplacer("NAME", name, "NODE", node).Replace(benchPod)
}

// serveBench sends one request, checks the status code of the response, and returns the size of the body.
func serveBench(b *testing.B, a *api, line, body, accept string, code int) int {
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r := newRequest(line, reader)
	r.Header.Set("Content-Type", contentTypeOf(line))
	r.Header.Set("Accept", accept)
	w := &discard{header: http.Header{}}
	a.ServeHTTP(w, r)
	if w.code != code {
		b.Fatalf("%s: code %d, want %d", line, w.code, code)
	}
	return w.bytes
}

func contentTypeOf(line string) string {
	switch {
	case !strings.HasPrefix(line, "PATCH"):
		return jsonType
	case strings.Contains(line, "fieldManager="):
		return applyT
	}
	return mergeT
}

// BenchmarkWrites measures writes of a pod with managed fields, from the request to the response,
// without a network and with a store in memory.
func BenchmarkWrites(b *testing.B) {
	for _, bench := range []struct {
		name, line string
		body       func(n int) string
		code       int
		prepared   bool
	}{
		{"create", "POST " + inA + "pods", func(n int) string { return podBody(fmt.Sprint("p", n), "") }, 201, false},
		{"update", "PUT " + inA + "pods/p", func(n int) string { return podBody("p", fmt.Sprint("n", n)) }, 200, true},
		{"patch", "PATCH " + inA + "pods/p", func(n int) string { return fmt.Sprintf(`{"spec":{"nodeName":"n%d"}}`, n) }, 200, true},
		{"status", "PATCH " + inA + "pods/p/status", func(n int) string { return fmt.Sprintf(`{"status":{"message":"m%d"}}`, n) }, 200, true},
		{"apply", "PATCH " + inA + "pods/p?fieldManager=m&force=true", func(n int) string { return podBody("p", fmt.Sprint("n", n)) }, 200, true},
	} {
		b.Run(bench.name, func(b *testing.B) {
			a := newCachedAPI(b, endpoints.Config{})
			serveBench(b, a, "POST "+inA+"pods", podBody("warm", ""), jsonType, 201) // because schemas are decoded on first use
			if bench.prepared {
				serveBench(b, a, "POST "+inA+"pods", podBody("p", ""), jsonType, 201)
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				serveBench(b, a, bench.line, bench.body(n), jsonType, bench.code)
			}
		})
	}
}

// passing is an admission plugin that handles every write and changes no object.
type passing struct{}

func (passing) Name() string                                        { return "Passing" }
func (passing) Handles(admission.Operation) bool                    { return true }
func (passing) Mutate(context.Context, *admission.Attributes) error { return nil }

// BenchmarkAdmitted measures writes with an admission plugin, including the checks of the plugin's result.
func BenchmarkAdmitted(b *testing.B) {
	for _, bench := range []struct {
		name, line string
		body       func(n int) string
		code       int
	}{
		{"create", "POST " + inA + "pods", func(n int) string { return podBody(fmt.Sprint("p", n), "") }, 201},
		{"update", "PUT " + inA + "pods/p", func(n int) string { return podBody("p", fmt.Sprint("n", n)) }, 200},
	} {
		b.Run(bench.name, func(b *testing.B) {
			a := newCachedAPI(b, endpoints.Config{Admission: admission.Chain{passing{}}})
			serveBench(b, a, "POST "+inA+"pods", podBody("p", ""), jsonType, 201)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				serveBench(b, a, bench.line, bench.body(n), jsonType, bench.code)
			}
		})
	}
}

// BenchmarkReads measures reads of 1,000 pods, with and without the watch cache.
func BenchmarkReads(b *testing.B) {
	b.Run("cached", func(b *testing.B) { benchReads(b, newCachedAPI(b, endpoints.Config{})) })
	b.Run("stored", func(b *testing.B) { benchReads(b, newAPI(b, endpoints.Config{})) })
}

func benchReads(b *testing.B, a *api) {
	for i := range 1000 {
		serveBench(b, a, "POST "+inA+"pods", podBody(fmt.Sprintf("p%04d", i), fmt.Sprint("n", i%50)), jsonType, 201)
	}
	for _, bench := range []struct{ name, line string }{
		{"get", "GET " + inA + "pods/p0500"}, {"list", "GET " + inA + "pods"}, {"page", "GET " + inA + "pods?limit=100"},
		{"select", "GET " + inA + "pods?fieldSelector=spec.nodeName%3Dn7"},
	} {
		for media, accept := range map[string]string{"json": jsonType, "protobuf": protobufType, "table": tableT} {
			b.Run(bench.name+"/"+media, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					b.SetBytes(int64(serveBench(b, a, bench.line, "", accept, 200)))
				}
			})
		}
	}
}

// flushed is a ResponseWriter that reports each write to seen.
type flushed struct {
	discard
	seen chan<- struct{}
}

func (f *flushed) Write(p []byte) (int, error) {
	if len(p) > 0 {
		f.seen <- struct{}{}
	}
	return f.discard.Write(p)
}

// BenchmarkWatch measures the delivery of one event to many watchers. One operation delivers one event,
// from the storage record to the bytes sent to the last watcher.
func BenchmarkWatch(b *testing.B) {
	for _, watchers := range []int{1, 100, 1000} {
		for media, accept := range map[string]string{"json": jsonType, "protobuf": protobufType + ";stream=watch"} {
			b.Run(fmt.Sprintf("%d/%s", watchers, media), func(b *testing.B) {
				seen := make(chan struct{}, watchers)
				var wg sync.WaitGroup
				stores := make([]*scripted, watchers)
				for i := range stores {
					stores[i] = &scripted{events: make(chan []rest.Event, 1), err: rest.ErrWatchClosed}
					wg.Go(func() {
						r := newRequest("GET "+inA+"configmaps?watch=1", nil)
						r.Header.Set("Accept", accept)
						serve(&flushed{discard{header: http.Header{}}, seen}, r, stores[i], endpoints.Config{})
					})
				}
				b.ReportAllocs()
				n := int64(0)
				for b.Loop() {
					n++
					event := rest.Event{Type: "MODIFIED", Record: record(b, "a", n)}
					for _, s := range stores {
						s.events <- []rest.Event{event}
					}
					for range stores {
						<-seen
					}
				}
				for _, s := range stores {
					close(s.events)
				}
				wg.Wait()
			})
		}
	}
}

// BenchmarkCompressedList measures a list of 10,000 pods for a client that accepts gzip.
func BenchmarkCompressedList(b *testing.B) {
	a := newCachedAPI(b, endpoints.Config{})
	for i := range 10_000 {
		serveBench(b, a, "POST "+inA+"pods", podBody(fmt.Sprintf("p%04d", i), fmt.Sprint("n", i%50)), jsonType, 201)
	}
	for media, accept := range map[string]string{"json": jsonType, "protobuf": protobufType} {
		b.Run(media, func(b *testing.B) {
			r := newRequest("GET "+inA+"pods", nil)
			r.Header.Set("Accept", accept)
			r.Header.Set("Accept-Encoding", "gzip")
			for b.Loop() {
				w := &discard{header: http.Header{}}
				a.ServeHTTP(w, r)
				b.ReportMetric(float64(w.bytes), "bytes")
			}
		})
	}
}
