package controlplane

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"
)

// benchPod is similar to the pods of a Deployment. NAME, N and OWNER are placeholders.
const benchPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"NAME","namespace":"bench","labels":{"app":"web","n":"N"},
"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"web","uid":"OWNER","controller":true,"blockOwnerDeletion":true}]},
"spec":{"containers":[{"name":"web","image":"registry.example.com/web:1.2.3","ports":[{"containerPort":8080,"protocol":"TCP"}],
"env":[{"name":"A","value":"1"},{"name":"B","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}],
"resources":{"requests":{"cpu":"100m","memory":"128Mi"},"limits":{"memory":"256Mi"}},
"livenessProbe":{"httpGet":{"path":"/healthz","port":8080},"periodSeconds":10},
"volumeMounts":[{"name":"config","mountPath":"/etc/web"}]}],
"volumes":[{"name":"config","configMap":{"name":"web"}}]}}`

// discarded is a response writer that discards the body.
type discarded struct {
	header http.Header
	code   int
}

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) WriteHeader(code int)        { d.code = code }
func (d *discarded) Write(p []byte) (int, error) { return len(p), nil }
func (d *discarded) FlushError() error           { return nil }

// BenchmarkPodWrites measures writes of a pod from request to response, without a network, with an
// in-memory store. The variant "bare" has no authorization, admission or controllers; "default" has
// the defaults of a server. The relevant result is the ratio of the two.
func BenchmarkPodWrites(b *testing.B) {
	bare := Options{Authorization: AuthorizationOptions{Modes: []string{"AlwaysAllow"}}, Admission: AdmissionOptions{DisablePlugins: AdmissionPlugins()}, Controllers: ControllerOptions{Names: []string{"-namespace-controller"}}}
	for _, write := range []struct {
		name, method, path, contentType string
		body                            func(of benchedPod, n int) string
		code                            int
	}{
		{"create", "POST", "", "application/json", func(of benchedPod, n int) string { return of.manifest(fmt.Sprint("p", n), n) }, http.StatusCreated},
		{"update", "PUT", "/p", "application/json", func(of benchedPod, n int) string { return of.whole(n) }, http.StatusOK},
		{"patch", "PATCH", "/p", "application/merge-patch+json", func(_ benchedPod, n int) string { return fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, n) }, http.StatusOK},
		{"apply", "PATCH", "/p?fieldManager=bench&force=true", "application/apply-patch+yaml", func(of benchedPod, n int) string { return of.manifest("p", n) }, http.StatusOK},
	} {
		for _, server := range []struct {
			name    string
			options Options
		}{{"bare", bare}, {"default", Options{}}} {
			b.Run(write.name+"/"+server.name, func(b *testing.B) {
				plane, err := New(newEnv(b), "/registry", server.options)
				if err != nil {
					b.Fatal(err)
				}
				defer plane.Close()
				of := createBenchPod(b, plane)
				b.ReportAllocs()
				n, before := 0, processorTime(b)
				for b.Loop() {
					n++
					r := httptest.NewRequest(write.method, benchPods+write.path, strings.NewReader(write.body(of, n)))
					r.Header.Set("Content-Type", write.contentType)
					w := &discarded{header: http.Header{}}
					if plane.ServeHTTP(w, r); w.code != write.code {
						b.Fatalf("%s %s: code %d, want %d", write.method, r.URL, w.code, write.code)
					}
				}
				b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(n), "CPU-µs/op")
			})
		}
	}
}

const benchPods = "/api/v1/namespaces/bench/pods"

// benchedPod contains the UID of the pods' owner, and the JSON of the pod "p" as it was created.
type benchedPod struct{ owner, stored string }

// manifest returns the manifest of a pod with the given name. Its label "n" has the value n.
func (of benchedPod) manifest(name string, n int) string {
	return strings.NewReplacer("NAME", name, `"N"`, fmt.Sprintf(`"%d"`, n), "OWNER", of.owner).Replace(benchPod)
}

// whole returns the complete pod "p" without a resourceVersion. Its label "n" has the value n.
func (of benchedPod) whole(n int) string {
	return strings.Replace(of.stored, `"n":"0"`, fmt.Sprintf(`"n":"%d"`, n), 1)
}

// createBenchPod creates the pod "p" as soon as its namespace accepts it.
func createBenchPod(b *testing.B, plane *ControlPlane) benchedPod {
	b.Helper()
	create := func(path, body string) (int, string) {
		return send(b, plane, "POST", path, body)
	}
	create("/api/v1/namespaces", `{"metadata":{"name":"bench"}}`)
	_, owner := create("/api/v1/namespaces/bench/configmaps", `{"metadata":{"name":"web"}}`)
	of := benchedPod{owner: valueOf(owner, "uid")}
	for {
		code, body := create(benchPods, of.manifest("p", 0))
		if code == http.StatusCreated {
			of.stored = strings.Replace(body, `"resourceVersion":"`+valueOf(body, "resourceVersion")+`",`, "", 1)
			return of
		}
		if code != http.StatusForbidden { // the quota is not yet computed
			b.Fatal(body)
		}
	}
}

// processorTime returns the CPU time of the process.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// valueOf returns the value of a string field in JSON.
func valueOf(object, field string) string {
	_, value, _ := strings.Cut(object, `"`+field+`":"`)
	value, _, _ = strings.Cut(value, `"`)
	return value
}
