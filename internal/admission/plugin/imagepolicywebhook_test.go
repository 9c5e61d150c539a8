package plugin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"

	"mainstay.dev/mainstay/internal/admission/config"
	"mainstay.dev/mainstay/internal/admission/plugin"
)

// imageWebhook is a webhook that counts its requests and records the last one.
type imageWebhook struct {
	*httptest.Server
	asked atomic.Int32
	last  atomic.Pointer[imagepolicyv1alpha1.ImageReview]
}

func newImageWebhook(t *testing.T, answer func(w http.ResponseWriter, review *imagepolicyv1alpha1.ImageReview)) *imageWebhook {
	hook := &imageWebhook{}
	hook.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := new(imagepolicyv1alpha1.ImageReview)
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			t.Error(err)
		}
		hook.asked.Add(1)
		hook.last.Store(review)
		answer(w, review)
	}))
	t.Cleanup(hook.Close)
	return hook
}

func (h *imageWebhook) plugin(change ...func(*config.ImagePolicyWebhook)) plugin.ImagePolicyWebhook {
	c := config.ImagePolicyWebhook{Client: h.Client(), URL: h.URL, AllowTTL: time.Hour, DenyTTL: time.Hour}
	for _, f := range change {
		f(&c)
	}
	return plugin.NewImagePolicyWebhook(c)
}

// byName denies the images named "denied" and "silent".
func byName(w http.ResponseWriter, review *imagepolicyv1alpha1.ImageReview) {
	status := &review.Status
	status.Allowed, status.AuditAnnotations = true, map[string]string{"seen": "yes"}
	for _, c := range review.Spec.Containers {
		switch c.Image {
		case "denied":
			status.Allowed, status.Reason = false, "not this one"
		case "silent":
			status.Allowed = false
		}
	}
	_ = json.NewEncoder(w).Encode(review)
}

func withImage(image string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) { s.Containers[0].Image = image }
}

func TestImagePolicyWebhook(t *testing.T) {
	t.Parallel()
	hook := newImageWebhook(t, byName)
	p := hook.plugin()
	pod := podNamed("x", withImage("good"), func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{{Name: "i", Image: "first"}} })
	pod.Annotations = map[string]string{"a.image-policy.k8s.io/break-glass": "true", "other": "x"}
	got := ask(t, p, creating(pods(), pod))
	if diff := cmp.Diff(map[string]string{"imagepolicywebhook.image-policy.k8s.io/seen": "yes"}, got.annotations); got.err != nil || diff != "" {
		t.Errorf("%v, annotations (-want +got):\n%s", got.err, diff)
	}
	want := imagepolicyv1alpha1.ImageReviewSpec{
		Containers: []imagepolicyv1alpha1.ImageReviewContainerSpec{{Image: "good"}, {Image: "first"}}, Namespace: "a",
		Annotations: map[string]string{"a.image-policy.k8s.io/break-glass": "true"},
	}
	last := hook.last.Load()
	if diff := cmp.Diff(want, last.Spec); diff != "" || last.Kind != "ImageReview" || last.APIVersion != "imagepolicy.k8s.io/v1alpha1" {
		t.Errorf("requests %s %s (-want +got):\n%s", last.APIVersion, last.Kind, diff)
	}
	wantError(t, ask(t, p, creating(pods(), podNamed("x", withImage("denied")))).err, `pods "x" is forbidden: image policy webhook backend denied one or more images: not this one`)
	wantError(t, ask(t, p, creating(pods(), podNamed("x", withImage("silent")))).err, `pods "x" is forbidden: one or more images rejected by webhook backend`)
	asked := hook.asked.Load()
	wantError(t, ask(t, p, creating(pods(), podNamed("y", withImage("denied")))).err, `pods "y" is forbidden: image policy webhook backend denied one or more images: not this one`)
	if err := ask(t, p, creating(pods(), pod)).err; err != nil || hook.asked.Load() != asked {
		t.Errorf("the response was not cached: %v", err)
	}
	debugged := podNamed("x", withImage("denied"), func(s *corev1.PodSpec) {
		s.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: "good"}}}
	})
	if err := ask(t, p, updating(resource("", "pods", "ephemeralcontainers"), debugged, podNamed("x"))).err; err != nil {
		t.Errorf("update of ephemeral containers: %v", err)
	}
	if err := ask(t, p, updating(resource("", "pods", "status"), podNamed("x", withImage("denied")), podNamed("x"))).err; err != nil {
		t.Errorf("update of the status: %v", err)
	}
}

// TestImagePolicyWebhookFails checks that requests to an unavailable webhook are retried, that defaultAllow
// then determines the result, and that this result is not cached.
func TestImagePolicyWebhookFails(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer  func(http.ResponseWriter, *imagepolicyv1alpha1.ImageReview)
		asked   int32
		refusal string
	}{
		"down":    {func(w http.ResponseWriter, _ *imagepolicyv1alpha1.ImageReview) { w.WriteHeader(503) }, 5, `pods "x" is forbidden: error contacting webhook: 503`},
		"refuses": {func(w http.ResponseWriter, _ *imagepolicyv1alpha1.ImageReview) { w.WriteHeader(403) }, 1, `pods "x" is forbidden: error contacting webhook: 403`},
		"garbage": {func(w http.ResponseWriter, _ *imagepolicyv1alpha1.ImageReview) { _, _ = w.Write([]byte("<html>")) }, 1, `pods "x" is forbidden: error contacting webhook: read the response of the webhook for images`},
		"endless": {func(w http.ResponseWriter, _ *imagepolicyv1alpha1.ImageReview) {
			_, _ = w.Write([]byte(`{"status":{"allowed":true,"reason":"` + strings.Repeat("x", 2<<20)))
		}, 1, `pods "x" is forbidden: error contacting webhook: read the response of the webhook for images`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hook := newImageWebhook(t, tt.answer)
			backoff := func(c *config.ImagePolicyWebhook) { c.RetryBackoff = time.Millisecond }
			got := ask(t, hook.plugin(backoff), creating(pods(), podNamed("x")))
			if got.err == nil || !strings.HasPrefix(got.err.Error(), tt.refusal) || hook.asked.Load() != tt.asked {
				t.Errorf("%d requests: %v", hook.asked.Load(), got.err)
			}
			got = ask(t, hook.plugin(func(c *config.ImagePolicyWebhook) { c.DefaultAllow = true }), creating(pods(), podNamed("x")))
			if diff := cmp.Diff(map[string]string{"imagepolicywebhook.image-policy.k8s.io/failed-open": "true"}, got.annotations); got.err != nil || diff != "" {
				t.Errorf("by default: %v, annotations (-want +got):\n%s", got.err, diff)
			}
		})
	}
}

// TestImagePolicyCacheSize checks that the cache of responses does not retain the requests. It measures the heap,
// so it does not run in parallel with other tests.
func TestImagePolicyCacheSize(t *testing.T) {
	p := newImageWebhook(t, func(w http.ResponseWriter, _ *imagepolicyv1alpha1.ImageReview) {
		_, _ = w.Write([]byte(`{"status":{"allowed":true}}`))
	}).plugin()
	heap := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	const n, size = 100, 1 << 20
	before := heap()
	for i := range n {
		validated(t, p, creating(pods(), podNamed("x", withImage(strings.Repeat("i", size)+fmt.Sprint(i)))), "")
	}
	if after := heap(); after > before+n*size/2 {
		t.Errorf("the heap has grown by %d bytes after %d reviews of %d bytes", after-before, n, size)
	}
	runtime.KeepAlive(p)
}
