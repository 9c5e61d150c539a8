package storagetest

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// Bench measures the most frequent operations of a server.
func Bench(b *testing.B, setup Setup) {
	b.Run("Get", func(b *testing.B) { benchGet(newBenchEnv(b, setup, 1000)) })
	b.Run("List10kJSON", func(b *testing.B) { benchList(newBenchEnv(b, setup, 10_000), rest.ListOptions{}) })
	b.Run("ListSelected", func(b *testing.B) {
		benchList(newBenchEnv(b, setup, 10_000), rest.ListOptions{Fields: fields.ParseSelectorOrDie("spec.nodeName=node7")})
	})
	b.Run("Page500Of10k", func(b *testing.B) { benchList(newBenchEnv(b, setup, 10_000), rest.ListOptions{Limit: 500}) })
	b.Run("Update", func(b *testing.B) { benchUpdate(newBenchEnv(b, setup, 1000), 1) })
	b.Run("Update32", func(b *testing.B) { benchUpdate(newBenchEnv(b, setup, 1000), 32) })
	b.Run("Update32Indexed", func(b *testing.B) {
		e := newBenchEnv(b, setup, 1000)
		e.drain(rest.ListOptions{Fields: fields.ParseSelectorOrDie("spec.nodeName=node7")})
		benchUpdate(e, 32)
	})
	b.Run("FanOut1000", func(b *testing.B) { benchFanOut(newBenchEnv(b, setup, 1000), nil) })
	b.Run("FanOut1000Nodes", func(b *testing.B) {
		benchFanOut(newBenchEnv(b, setup, 1000), func(i int) fields.Selector {
			return fields.OneTermEqualSelector("spec.nodeName", fmt.Sprintf("node%d", i))
		})
	})
}

type benchEnv struct {
	*testing.B
	storage.Interface
	ctx  context.Context
	pods int
}

// newBenchEnv returns a storage of n pods, p0 to p(n-1). The pods are on 100 nodes: p123 is on node23.
func newBenchEnv(b *testing.B, setup Setup, n int) *benchEnv {
	backend := setup.Backend(b, b.TempDir())
	b.Cleanup(func() { backend.Close() })
	store, err := storage.New(storage.Config{Backend: backend, ResourcePrefix: "pods", Kind: PodKind(), Namespaced: true})
	if err != nil {
		b.Fatal(err)
	}
	e := &benchEnv{B: b, Interface: setup.Decorate(b, store), ctx: context.Background(), pods: n}
	together(32, func(w int) {
		for i := w; i < n; i += 32 {
			if _, err := e.Create(e.ctx, benchPod(i), storage.WriteOptions{}); err != nil {
				b.Error(err)
			}
		}
	})
	e.drain(rest.ListOptions{})
	return e
}

// benchPod returns a pod of a typical size.
func benchPod(i int) *corev1.Pod {
	pod := Pod("ns"+strconv.Itoa(i%10), "p"+strconv.Itoa(i), "app=web", "pod-template-hash=5d4f8c7b9", "x=0")
	pod.Spec.NodeName = "node" + strconv.Itoa(i%100)
	container := &pod.Spec.Containers[0]
	for j := range 12 {
		container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", j), Value: "some value of the usual length"})
	}
	for j := range 4 {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodConditionType(fmt.Sprintf("Condition%d", j)), Status: corev1.ConditionTrue, Message: "everything is as it should be",
		})
	}
	return pod
}

func (e *benchEnv) name(i int) types.NamespacedName {
	i %= e.pods
	return key("ns"+strconv.Itoa(i%10), "p"+strconv.Itoa(i))
}

// drain lists objects and returns the total size of their JSON, in bytes.
func (e *benchEnv) drain(options rest.ListOptions) int64 {
	list, err := e.List(e.ctx, "", options)
	if err != nil {
		e.Fatal(err)
	}
	var size int64
	for record, err := range list.Items {
		if err != nil {
			e.Fatal(err)
		}
		tail, err := record.JSONTail(record.Kind().Hub)
		if err != nil {
			e.Fatal(err)
		}
		size += int64(len(tail))
	}
	return size
}

func benchGet(e *benchEnv) {
	i := 0
	for e.Loop() {
		record, err := e.Get(e.ctx, e.name(i), storage.ReadOptions{})
		if err != nil {
			e.Fatal(err)
		}
		if _, err := record.JSONTail(record.Kind().Hub); err != nil {
			e.Fatal(err)
		}
		i++
	}
}

func benchList(e *benchEnv, options rest.ListOptions) {
	e.ReportAllocs()
	for e.Loop() {
		e.SetBytes(e.drain(options))
	}
}

func benchUpdate(e *benchEnv, writers int) {
	e.ReportAllocs()
	e.ResetTimer()
	together(writers, func(w int) {
		for i := w; i < e.N; i += writers {
			if _, err := e.Update(e.ctx, e.name(i), setLabel(i), storage.UpdateOptions{}); err != nil {
				e.Error(err)
			}
		}
	})
}

func setLabel(i int) storage.UpdateFunc {
	return updatePod(func(pod *corev1.Pod) { pod.Labels["x"] = "changed-" + strconv.Itoa(i) })
}

// benchFanOut measures the delivery of one change to 1000 watches, as JSON. With selectors, each watch
// receives one percent of the changes, or none.
func benchFanOut(e *benchEnv, selector func(int) fields.Selector) {
	const watches = 1000
	ctx, cancel := context.WithCancel(e.ctx)
	var group, delivered sync.WaitGroup
	for i := range watches {
		no := false
		options := rest.ListOptions{SendInitialEvents: &no}
		if selector != nil {
			options.Fields = selector(i)
		}
		w, err := e.Watch(ctx, "", options)
		if err != nil {
			e.Fatal(err)
		}
		group.Go(func() {
			defer w.Close()
			for {
				events, err := w.Next(ctx)
				if err != nil {
					return
				}
				for _, ev := range events {
					if _, err := ev.Record.JSONTail(ev.Record.Kind().Hub); err != nil {
						e.Error(err)
					}
					delivered.Done()
				}
			}
		})
	}
	per := watches
	if selector != nil {
		per = 1 // each pod is on one of the selected nodes
	}
	e.ResetTimer()
	for i := range e.N {
		delivered.Add(per)
		var record *codec.Record
		var err error
		if record, err = e.Update(e.ctx, e.name(i), setLabel(e.N+i), storage.UpdateOptions{}); err != nil {
			e.Fatal(record, err)
		}
	}
	delivered.Wait()
	e.StopTimer()
	cancel()
	group.Wait()
}
