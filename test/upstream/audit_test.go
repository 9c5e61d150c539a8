package upstream

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	upstreamaudit "k8s.io/apiserver/pkg/audit"
	"sigs.k8s.io/randfill"

	"mainstay.dev/mainstay/internal/filters/audit"
)

// TestAuditEvents checks that each line of Mainstay's audit log is identical to kube-apiserver's encoding of
// the same event.
func TestAuditEvents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	options := audit.NewOptions()
	options.PolicyFile, options.Log.Path = filepath.Join(dir, "policy"), filepath.Join(dir, "log")
	if err := os.WriteFile(options.PolicyFile, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	metrics, err := audit.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	_, sink, err := audit.Open(audit.Config{Options: options, Metrics: metrics, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	const events = 300
	filler := randfill.NewWithSeed(rand.Int64()).NilChance(0.3).NumElements(0, 3).Funcs(
		func(t *metav1.Time, _ randfill.Continue) { *t = metav1.Time{} },
		func(b *json.RawMessage, c randfill.Continue) {
			*b = audit.Body([]byte(`{ "<a>" : "` + strings.Repeat("x", c.Intn(5)) + `" }`))
		},
	)
	for range events {
		var event audit.Event
		filler.Fill(&event)
		event.TypeMeta = metav1.TypeMeta{}
		sink.Process(&event)
	}
	text, err := os.ReadFile(options.Log.Path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	if len(lines) != events+1 {
		t.Fatalf("%d lines", len(lines)-1)
	}
	codec := upstreamaudit.Codecs.LegacyCodec(auditv1.SchemeGroupVersion)
	for _, line := range lines[:events] {
		var event auditv1.Event
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&event); err != nil {
			t.Fatalf("decode the event %s: %v", line, err)
		}
		want, err := runtime.Encode(codec, &event)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(line, want) {
			t.Errorf("%s, kube-apiserver writes\n%s", line, want)
		}
	}
}
