package codec_test

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/codec/codectest"
)

// implementation is a function to measure, implemented either with other libraries or with this package.
type implementation struct {
	name string
	do   func() error
}

func compare(b *testing.B, name string, implementations ...implementation) {
	for _, w := range implementations {
		b.Run(name+"/"+w.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := w.do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPod compares writing, reading and sending a pod with other libraries and with this package.
func BenchmarkPod(b *testing.B) {
	for _, pod := range codectest.Pods() {
		size := strings.TrimPrefix(pod.Name, "orders-7d9c5b6f4-")
		b.Run(size, func(b *testing.B) { benchPod(b, pod) })
	}
}

func benchPod(b *testing.B, pod *corev1.Pod) {
	kind, v := podKind(), podVersion()
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	value, err := kind.EncodeStored(b.Context(), pod)
	if err != nil {
		b.Fatal(err)
	}
	body, err := json.Marshal(pod)
	if err != nil {
		b.Fatal(err)
	}
	dst := make([]byte, 0, 32<<10)
	read := func() *codec.Record { return codec.NewRecord(kind, name, value, 1234567) }
	written := func() *codec.Record { return codec.RecordOf(kind, pod, value, 1234567) }
	decoded := func() *corev1.Pod {
		obj, err := kind.DecodeStored(value, 1234567)
		if err != nil {
			b.Fatal(err)
		}
		return obj.(*corev1.Pod)
	}
	slowJSON := func() error {
		var buf bytes.Buffer
		err := json.NewEncoder(&buf).Encode(decoded())
		_ = bytes.Clone(buf.Bytes())
		return err
	}
	compare(b, "body", implementation{"library", func() error { _, err := kjson.UnmarshalStrict(body, new(corev1.Pod)); return err }},
		implementation{"codec", func() error { _, err := v.Decode(body, codec.JSON, true); return err }})
	compare(b, "read-json", implementation{"library", slowJSON}, implementation{"codec", func() error { _, err := read().JSONTail(v); return err }})
	compare(b, "written-json", implementation{"library", slowJSON}, implementation{"codec", func() error { _, err := written().JSONTail(v); return err }})
	compare(b, "written-protobuf", implementation{"library", func() error { _, err := decoded().Marshal(); return err }},
		implementation{"codec", func() error { _, err := written().AppendProtobuf(dst, v); return err }})
	app := labels.SelectorFromSet(labels.Set{"shard": "17"})
	node := fields.OneTermEqualSelector("spec.nodeName", "node-007")
	compare(b, "label", implementation{"library", func() error { app.Matches(labels.Set(decoded().Labels)); return nil }},
		implementation{"codec", func() error { _, err := read().Matches(app, nil); return err }})
	compare(b, "field", implementation{"library", func() error { node.Matches(kind.Fields(decoded())); return nil }},
		implementation{"codec", func() error { _, err := written().Matches(nil, node); return err }})
	cachedRecord := read()
	if _, err := cachedRecord.JSONTail(v); err != nil {
		b.Fatal(err)
	}
	counted := podKind()
	counted.EncodingCache = memory(b, 0, nil)
	counting := codec.NewRecord(counted, name, value, 1234567)
	if _, err := counting.JSONTail(v); err != nil {
		b.Fatal(err)
	}
	compare(b, "hit", implementation{"unlimited", func() error { _, err := cachedRecord.JSONTail(v); return err }},
		implementation{"codec", func() error { _, err := counting.JSONTail(v); return err }})
}

// BenchmarkRecordMemory reports the additional memory of a cached pod: initially, after a list with a label
// selector, and after a list with a field selector.
func BenchmarkRecordMemory(b *testing.B) {
	pod := codectest.Pods()[0]
	kind := podKind()
	value, err := kind.EncodeStored(b.Context(), pod)
	if err != nil {
		b.Fatal(err)
	}
	const n = 10_000
	for b.Loop() {
		records := make([]*codec.Record, n)
		before := heap()
		for i := range records {
			records[i] = codec.NewRecord(kind, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, value, int64(i))
		}
		b.ReportMetric(float64(heap()-before)/n, "B/record")
		for what, match := range map[string]func(*codec.Record) (bool, error){
			"B/by-label": func(r *codec.Record) (bool, error) {
				return r.Matches(labels.SelectorFromSet(labels.Set{"shard": "17"}), nil)
			},
			"B/by-field": func(r *codec.Record) (bool, error) {
				return r.Matches(nil, fields.OneTermEqualSelector("spec.nodeName", "n"))
			},
		} {
			before := heap()
			for _, r := range records {
				if _, err := match(r); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(heap()-before)/n, what)
		}
		runtime.KeepAlive(records)
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
