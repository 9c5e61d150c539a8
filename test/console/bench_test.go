package console

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-rod/rod/lib/proto"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"mainstay.dev/mainstay/test/testserver"
)

// BenchmarkConsole measures the first paint of the console. It also measures the list of 100,000 objects: the
// time until the first rows are shown, and the JavaScript memory with the first rows and with all objects.
func BenchmarkConsole(b *testing.B) {
	const objects = 100_000
	browser := newBrowser(b)
	s := testserver.New(b, testserver.Options{})
	createConfigMaps(b, s.RESTConfig(), objects)
	c := startConsole(b, s.Kubeconfig())
	b.Run("first paint", func(b *testing.B) {
		p := openPage(b, browser, c, "/console/")
		for b.Loop() {
			p.signIn("/console/")
			p.awaitTrue(`document.querySelector(".card") !== null`)
		}
	})
	b.Run(fmt.Sprintf("list of %d objects", objects), func(b *testing.B) {
		p := openPage(b, browser, c, "/console/")
		rows := `document.querySelectorAll(".rows tbody tr").length > 20`
		for b.Loop() {
			p.goTo("/console/")
			p.awaitTrue(`document.querySelector(".rows") === null`)
			begin := time.Now()
			p.goTo("/console/objects/core/configmaps")
			p.awaitTrue(rows)
			b.ReportMetric(float64(time.Since(begin).Milliseconds()), "ms/first-rows")
			b.ReportMetric(p.heap(b), "MB/first-rows")
		}
		begin := time.Now()
		p.goTo("/console/objects/core/configmaps?sort=Name")
		p.awaitTrue(fmt.Sprintf(`((text) => parseInt(text) >= %d && !text.includes("read"))(document.querySelector(".head [role=status]")?.innerText ?? "")`, objects))
		b.ReportMetric(float64(time.Since(begin).Milliseconds()), "ms/all-rows")
		b.ReportMetric(p.heap(b), "MB/all-rows")
	})
}

// createConfigMaps creates n ConfigMaps over several connections.
func createConfigMaps(b *testing.B, config *rest.Config, n int) {
	b.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	const workers = 32
	var group errgroup.Group
	for w := range workers {
		group.Go(func() error {
			for i := w; i < n; i += workers {
				m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("config-%06d", i), Labels: map[string]string{"app": fmt.Sprint("app-", i%100)}}, Data: map[string]string{"key": "value"}}
				if _, err := client.CoreV1().ConfigMaps("default").Create(b.Context(), m, metav1.CreateOptions{}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
}

// heap returns the size of the page's JavaScript heap after a garbage collection, in MB.
func (p *page) heap(b *testing.B) float64 {
	b.Helper()
	p.check(proto.HeapProfilerCollectGarbage{}.Call(p))
	usage, err := proto.RuntimeGetHeapUsage{}.Call(p)
	p.check(err)
	return usage.UsedSize / 1e6
}
