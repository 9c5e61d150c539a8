package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/yaml"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release"

	"mainstay.dev/mainstay/test/testserver"
)

// TestHelmLargeChart installs a monitoring stack of 150 objects of 20 kinds. It upgrades the release, first
// without and then with changes, rolls it back and uninstalls it.
func TestHelmLargeChart(t *testing.T) {
	t.Parallel()
	chart := monitoringChart(t)
	for name, serverSide := range map[string]bool{"with server-side apply": true, "with client-side patches": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			largeLife(t, newHelm(t, testserver.New(t, testserver.Options{}), chart), serverSide)
		})
	}
}

func largeLife(t *testing.T, h *helm, serverSide bool) {
	h.finishJobs()
	h.install(serverSide)
	installed := h.objects()
	if kinds := kindsOf(installed); len(installed)+len(stackKinds) < 148 || len(kinds) < 20 {
		t.Errorf("%d objects of %d kinds: %v", len(installed), len(kinds), kinds)
	}
	h.upgrade(nil)
	if again := h.objects(); !maps.Equal(installed, again) {
		t.Errorf("an upgrade without changes changed\n%v", changed(installed, again))
	}

	h.upgrade(map[string]any{
		"image": map[string]any{"tag": "2.1"}, "collectors": 3, "logLevel": "debug",
		"rules": []any{"general", "network", "one-more"}, "controlPlane": map[string]any{"dns": 9154, "etcd": nil},
	})
	upgraded := h.objects()
	h.wantUpgraded(installed, upgraded)

	rollback := action.NewRollback(h.config)
	rollback.Version, rollback.WaitStrategy = 1, kube.HookOnlyStrategy
	if err := rollback.Run(releaseName); err != nil {
		t.Fatalf("roll back: %v", err)
	}
	back := h.objects()
	if want, got := slices.Sorted(maps.Keys(installed)), slices.Sorted(maps.Keys(back)); !slices.Equal(want, got) {
		t.Errorf("rolled back, the release has\n%v\nwant\n%v", got, want)
	}

	h.wantUninstalled()
}

// wantUninstalled uninstalls the release. It checks that the objects with a keep policy remain. The definitions
// must also remain, because Helm never deletes definitions.
func (h *helm) wantUninstalled() {
	h.t.Helper()
	resources := h.resources()
	uninstall := action.NewUninstall(h.config)
	uninstall.WaitStrategy, uninstall.DeletionPropagation = kube.HookOnlyStrategy, "background"
	must[*release.UninstallReleaseResponse](h.t)(uninstall.Run(releaseName))
	var left []string
	for _, info := range resources {
		if err := info.Get(); err == nil {
			left = append(left, objectName(info))
		} else if !apierrors.IsNotFound(err) {
			h.t.Errorf("get %s after the uninstallation: %v", objectName(info), err)
		}
	}
	// A controller deletes a claim when no pod uses it any longer.
	left = slices.DeleteFunc(left, func(name string) bool { return strings.HasPrefix(name, "PersistentVolumeClaim ") })
	if want := []string{"Secret " + h.namespace + "/shop-admin"}; !slices.Equal(slices.Sorted(slices.Values(left)), want) {
		h.t.Errorf("%v are left, want %v", left, want)
	}
	definitions := must[*metav1.PartialObjectMetadataList](h.t)(h.metadata.Resource(definitionsResource).List(h.t.Context(), metav1.ListOptions{}))
	if len(definitions.Items) != len(stackKinds) {
		h.t.Errorf("%d definitions are left, want all %d", len(definitions.Items), len(stackKinds))
	}
}

var definitionsResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// wantUpgraded checks that an upgrade has changed exactly the expected objects.
func (h *helm) wantUpgraded(before, after map[string]string) {
	h.t.Helper()
	for name, version := range after {
		was, there := before[name]
		kind, _, _ := strings.Cut(name, " ")
		isNew := strings.HasSuffix(name, "-one-more")
		changes := isNew || slices.Contains([]string{"Deployment", "DaemonSet", "Collector", "Router"}, kind) ||
			name == "ConfigMap "+h.namespace+"/shop-config" || name == "Service kube-system/shop-dns"
		if there == isNew || (was != version) != changes {
			h.t.Errorf("%s was of version %q and is of %q", name, was, version)
		}
	}
	for name := range before {
		_, there := after[name]
		gone := name == "Service kube-system/shop-etcd" || name == "ServiceMonitor "+h.namespace+"/shop-etcd"
		if there == gone && !strings.HasPrefix(name, "Rule ") {
			h.t.Errorf("%s is still there: %t", name, there)
		}
	}
	if rules := kindsOf(after)["Rule"]; rules != 3 {
		h.t.Errorf("%d rules are left", rules)
	}
}

// resources returns the stored objects of the release.
func (h *helm) resources() kube.ResourceList {
	h.t.Helper()
	status := must[release.Releaser](h.t)(action.NewStatus(h.config).Run(releaseName))
	manifest := must[release.Accessor](h.t)(release.NewAccessor(status)).Manifest()
	return must[kube.ResourceList](h.t)(h.config.KubeClient.Build(strings.NewReader(manifest), false))
}

// objects returns the resourceVersions of the release's objects, keyed by kind, namespace and name.
func (h *helm) objects() map[string]string {
	h.t.Helper()
	versions := map[string]string{}
	for _, info := range h.resources() {
		if err := info.Get(); err != nil {
			h.t.Errorf("get %s: %v", objectName(info), err)
			continue
		}
		versions[objectName(info)] = must[metav1.Object](h.t)(meta.Accessor(info.Object)).GetResourceVersion()
	}
	return versions
}

func objectName(info *resource.Info) string {
	return info.Mapping.GroupVersionKind.Kind + " " + strings.TrimPrefix(info.Namespace+"/"+info.Name, "/")
}

// kindsOf counts the objects of each kind.
func kindsOf(objects map[string]string) map[string]int {
	kinds := map[string]int{}
	for name := range objects {
		kind, _, _ := strings.Cut(name, " ")
		kinds[kind]++
	}
	return kinds
}

// changed describes the objects whose resourceVersions differ, including both resourceVersions.
func changed(before, after map[string]string) []string {
	var names []string
	for name, version := range after {
		if before[name] != version {
			names = append(names, fmt.Sprintf("%s: %s, %s", name, before[name], version))
		}
	}
	slices.Sort(names)
	return names
}

// finishJobs marks Jobs as complete until the test ends, as the job controller would.
func (h *helm) finishJobs() {
	jobs := h.kube.BatchV1().Jobs(h.namespace)
	watch, err := jobs.Watch(h.t.Context(), metav1.ListOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan struct{})
	h.t.Cleanup(func() { cancel(); watch.Stop(); <-done })
	go func() {
		defer close(done)
		for event := range watch.ResultChan() {
			job, ok := event.Object.(*batchv1.Job)
			if !ok || event.Type != "ADDED" {
				continue
			}
			now := metav1.Now()
			job.Status = batchv1.JobStatus{StartTime: &now, CompletionTime: &now, Succeeded: 1, Conditions: []batchv1.JobCondition{
				{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastTransitionTime: now},
				{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: now},
			}}
			if _, err := jobs.UpdateStatus(ctx, job, metav1.UpdateOptions{}); err != nil && ctx.Err() == nil {
				h.t.Errorf("finish job %s: %v", job.Name, err)
			}
		}
	}()
}

// monitoringChart returns a folder that contains the chart and its definitions.
func monitoringChart(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "monitoring")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "monitoring"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "crds"), 0o700); err != nil {
		t.Fatal(err)
	}
	for kind, spec := range stackKinds {
		definition := must[[]byte](t)(yaml.Marshal(definitionOf(kind, spec)))
		if err := os.WriteFile(filepath.Join(dir, "crds", strings.ToLower(kind)+".yaml"), definition, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
