package console

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/test/testserver"
)

func TestServerPage(t *testing.T) {
	browser := newBrowser(t)
	s := testserver.New(t, testserver.Options{})
	admin := newAPIUser(t, s.RESTConfig(), "")
	for i := range 20 {
		admin.apply(configMapPath("default", fmt.Sprintf("numbers-%d", i)), configMap(fmt.Sprintf("numbers-%d", i), "x"))
	}
	p := openPage(t, browser, startConsole(t, s.Kubeconfig()), "/console/server")

	t.Run("Tables", func(t *testing.T) {
		p.in(t)
		p.await("Health checks", "etcd", "Latency by verb and resource", "configmaps", "Flow control", "global-default", "Controllers", "garbage", "Certificates", "authority", "Store, history and memory",
			"Size of the store", "Size of the history", "Goroutines", "Resident memory")
		p.awaitTrue(`document.querySelector(".chip.failed") === null && document.querySelectorAll("main .chip").length > 3`)
		rows, err := p.Eval(`() => [...document.querySelectorAll("table[aria-label='Latency by verb and resource'] tbody tr")].map((row) => row.innerText)`)
		p.check(err)
		if got := rows.Value.Arr(); len(got) < 5 {
			t.Errorf("the table of latencies has %d rows: %v", len(got), got)
		}
		p.awaitMissing("NaN")
		p.awaitMissing("undefined")
	})

	// The server records a sample every 15 seconds, and a chart needs two samples.
	t.Run("Charts", func(t *testing.T) {
		p.in(t)
		watch, err := admin.client.Get(admin.base + "/api/v1/configmaps?watch=1")
		if err != nil {
			t.Fatal(err)
		}
		defer watch.Body.Close()
		testserver.Eventually(t, 3*pageTimeout, func() error {
			time.Sleep(200 * time.Millisecond)
			found, err := p.Eval(`() => [...document.querySelectorAll("figcaption")].map((title) => title.innerText).join()`)
			if err != nil || !strings.Contains(found.Value.Str(), "Watches") {
				return fmt.Errorf("the charts are %v %w", found, err)
			}
			return nil
		})
		p.await("Requests per second", "Watches", "Size of the store", "Memory", "CPU cores")
		p.awaitTrue(`document.querySelectorAll("figure canvas").length >= 6`)
		p.expect("getImageData") // Chromium recommends a slower canvas for pages that read pixels, as this test does
		// No canvas is empty.
		p.awaitTrue(`[...document.querySelectorAll("figure canvas")].every((canvas) => canvas.width > 100 && canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value > 0))`)
		// The charts use colors of the style sheet, such as --muted, instead of black.
		p.awaitTrue(`!(() => {
			const canvas = document.querySelector("figure canvas"), data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
			for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255 && data[i] + data[i + 1] + data[i + 2] === 0) return true;
			return false;
		})()`)
		// The time labels are inside the canvas. A change of the theme redraws the charts.
		_, err = p.Eval(`() => {
			window.clipped = [], window.drawn = 0;
			const draw = CanvasRenderingContext2D.prototype.fillText;
			CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
				const half = this.measureText(text).width / 2, end = this.textAlign === "center" ? x + half : x;
				drawn++;
				if (this.getTransform().transformPoint({ x: end, y }).x > this.canvas.width) clipped.push(text);
				draw.call(this, text, x, y);
			};
		}`)
		p.check(err)
		p.click("Switch between light and dark")
		p.awaitTrue(`drawn > 10`)
		p.awaitText(`clipped.join()`, "")
		p.click("Switch between light and dark")
		p.screenshot("charts")
		_, err = p.Eval(`() => document.querySelector("main table[aria-label]").scrollIntoView()`)
		p.check(err)
		p.screenshot("tables")
		_, err = p.Eval(`() => document.querySelector("h1").scrollIntoView()`)
		p.check(err)
		p.click("Switch between light and dark")
		p.screenshot("charts-dark")
		p.click("Switch between light and dark")
		// The legend shows the values at the position of the pointer.
		_, err = p.Eval(`() => {
			const over = document.querySelector(".u-over"), box = over.getBoundingClientRect();
			over.dispatchEvent(new MouseEvent("mousemove", { clientX: box.right - 2, clientY: box.top + 20, bubbles: true }));
		}`)
		p.check(err)
		p.resize(600, 800)
		p.awaitTrue(`[...document.querySelectorAll("figure canvas")].every((canvas) => canvas.clientWidth <= 600)`)
		p.screenshot("narrow")
		p.resize(1280, 800)
	})

	t.Run("Restricted", func(t *testing.T) {
		p.in(t)
		admin.apply(rbacAPI+"clusterroles/health", `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: health}, rules: [{verbs: [get], nonResourceURLs: [/readyz]}]}`)
		kubeconfig := writeKubeconfig(t, s, admin.serviceAccountToken("reader", "health"))
		other := openPage(t, browser, startConsole(t, kubeconfig), "/console/admission")
		other.expect("403 (Forbidden)")
		other.goTo("/console/server")
		other.await("The charts cannot be read", "The metrics cannot be read", `cannot get path "/metrics"`, "Health checks", "etcd")
		other.screenshot("restricted")
	})
}
