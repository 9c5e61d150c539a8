package e2e

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart"
	"helm.sh/helm/v4/pkg/chart/loader"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release"

	"mainstay.dev/mainstay/test/testserver"
)

// helm runs Helm's actions on one release, which has its own namespace.
type helm struct {
	*clients
	t      *testing.T
	config *action.Configuration
	chart  chart.Charter
}

const releaseName = "shop"

// newHelm returns a helm for the chart in a folder.
func newHelm(t *testing.T, srv *testserver.Server, folder string) *helm {
	t.Helper()
	return newHelmOf(t, srv.RESTConfig(), srv.Kubeconfig(), folder)
}

// newHelmOf is like newHelm, but uses the API that config and the kubeconfig file describe.
func newHelmOf(t *testing.T, config *rest.Config, kubeconfig, folder string) *helm {
	t.Helper()
	c := newClients(t, config)
	return &helm{clients: c, t: t, config: newHelmConfig(t, kubeconfig, c.namespace, config.Host), chart: must[chart.Charter](t)(loader.LoadDir(folder))}
}

// newHelmConfig returns Helm's configuration for a namespace on the server at url.
func newHelmConfig(t *testing.T, kubeconfig, namespace, url string) *action.Configuration {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig, flags.Namespace, flags.APIServer = &kubeconfig, &namespace, &url
	flags.WrapConfigFn = func(config *rest.Config) *rest.Config {
		config.QPS = -1 // no limit
		return config
	}
	config := action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler))
	if err := config.Init(flags, namespace, "secret"); err != nil {
		t.Fatalf("initialise Helm: %v", err)
	}
	return config
}

// install installs the chart, by server-side apply or by client-side patches.
func (h *helm) install(serverSide bool) {
	h.t.Helper()
	install := action.NewInstall(h.config)
	install.ReleaseName, install.Namespace = releaseName, h.namespace
	install.ServerSideApply, install.WaitStrategy = serverSide, kube.HookOnlyStrategy
	must[release.Releaser](h.t)(install.Run(h.chart, nil))
}

// upgrade upgrades the release with the given values.
func (h *helm) upgrade(values map[string]any) {
	h.t.Helper()
	upgrade := action.NewUpgrade(h.config)
	upgrade.Namespace, upgrade.WaitStrategy = h.namespace, kube.HookOnlyStrategy
	must[release.Releaser](h.t)(upgrade.Run(releaseName, h.chart, values))
}

// wantRelease checks the objects of the release.
func (h *helm) wantRelease(replicas int32, greeting string, extra bool) {
	h.t.Helper()
	web := must[*appsv1.Deployment](h.t)(h.kube.AppsV1().Deployments(h.namespace).Get(h.t.Context(), releaseName+"-web", metav1.GetOptions{}))
	if replicasOf(web) != replicas || web.Labels["app.kubernetes.io/managed-by"] != "Helm" || web.Annotations["meta.helm.sh/release-name"] != releaseName {
		h.t.Errorf("replicas %d, want %d; labels %v, annotations %v", replicasOf(web), replicas, web.Labels, web.Annotations)
	}
	config := must[*corev1.ConfigMap](h.t)(h.maps.Get(h.t.Context(), releaseName+"-config", metav1.GetOptions{}))
	if config.Data["greeting"] != greeting {
		h.t.Errorf("greeting %q, want %q", config.Data["greeting"], greeting)
	}
	_, err := h.kube.CoreV1().Secrets(h.namespace).Get(h.t.Context(), releaseName+"-extra", metav1.GetOptions{})
	if extra && err != nil || !extra && !apierrors.IsNotFound(err) {
		h.t.Errorf("the extra secret: %v, want it there: %t", err, extra)
	}
}

// wantHistory checks the statuses in the Secrets that contain Helm's release history.
func (h *helm) wantHistory(statuses ...string) {
	h.t.Helper()
	kept := must[*corev1.SecretList](h.t)(h.kube.CoreV1().Secrets(h.namespace).List(h.t.Context(), metav1.ListOptions{LabelSelector: "owner=helm,name=" + releaseName}))
	if len(kept.Items) != len(statuses) {
		h.t.Fatalf("%d revisions are kept, want %d", len(kept.Items), len(statuses))
	}
	for i, secret := range kept.Items {
		if want := fmt.Sprintf("sh.helm.release.v1.%s.v%d", releaseName, i+1); secret.Name != want || secret.Type != "helm.sh/release.v1" || secret.Labels["status"] != statuses[i] {
			h.t.Errorf("revision %d is kept in %s of type %s with status %s, want %s, %s", i+1, secret.Name, secret.Type, secret.Labels["status"], want, statuses[i])
		}
	}
}

func TestHelm(t *testing.T) {
	t.Parallel()
	shop := filepath.Join("testdata", "chart")
	srv := testserver.New(t, testserver.Options{})
	for name, serverSide := range map[string]bool{"with server-side apply": true, "with client-side patches": false} {
		t.Run("install, upgrade, roll back and uninstall "+name, func(t *testing.T) {
			t.Parallel()
			helmLife(t, newHelm(t, srv, shop), serverSide)
		})
	}
	t.Run("install with a dry run", func(t *testing.T) {
		t.Parallel()
		helmDryRun(t, newHelm(t, srv, shop))
	})
	t.Run("list releases and read their values", func(t *testing.T) {
		t.Parallel()
		helmReads(t, newHelm(t, srv, shop))
	})
	t.Run("reject an existing name", func(t *testing.T) {
		t.Parallel()
		helmTaken(t, newHelm(t, srv, shop))
	})
}

func helmLife(t *testing.T, h *helm, serverSide bool) {
	h.install(serverSide)
	h.wantRelease(1, "hello", false)
	h.wantHistory("deployed")
	config := must[*corev1.ConfigMap](t)(h.maps.Get(t.Context(), releaseName+"-config", metav1.GetOptions{}))
	if config.Data["known"] != h.namespace || config.Data["kubernetes"] == "" {
		t.Errorf("the templates learned %v from the server", config.Data)
	}

	h.upgrade(map[string]any{"replicas": 3, "greeting": "welcome", "extra": true})
	h.wantRelease(3, "welcome", true)
	h.wantHistory("superseded", "deployed")

	rollback := action.NewRollback(h.config)
	rollback.Version, rollback.WaitStrategy = 1, kube.HookOnlyStrategy
	if err := rollback.Run(releaseName); err != nil {
		t.Fatalf("roll back: %v", err)
	}
	h.wantRelease(1, "hello", false)
	h.wantHistory("superseded", "superseded", "deployed")

	uninstall := action.NewUninstall(h.config)
	uninstall.WaitStrategy, uninstall.DeletionPropagation = kube.HookOnlyStrategy, "background"
	must[*release.UninstallReleaseResponse](t)(uninstall.Run(releaseName))
	h.wantHistory()
	_, err := h.kube.AppsV1().Deployments(h.namespace).Get(t.Context(), releaseName+"-web", metav1.GetOptions{})
	wantError(t, err, apierrors.IsNotFound, "NotFound")
	hook := must[*corev1.ConfigMap](t)(h.maps.Get(t.Context(), releaseName+"-before", metav1.GetOptions{}))
	if hook.Data["revision"] != "2" {
		t.Errorf("the hook ran last for revision %s", hook.Data["revision"])
	}
}

func helmDryRun(t *testing.T, h *helm) {
	install := action.NewInstall(h.config)
	install.ReleaseName, install.Namespace = releaseName, h.namespace
	install.DryRunStrategy, install.WaitStrategy = action.DryRunServer, kube.HookOnlyStrategy
	must[release.Releaser](t)(install.Run(h.chart, nil))
	h.wantHistory()
}

func helmReads(t *testing.T, h *helm) {
	h.install(true)
	h.upgrade(map[string]any{"greeting": "hi"})
	releases := must[[]release.Releaser](t)(action.NewList(h.config).Run())
	if len(releases) != 1 {
		t.Errorf("%d releases are listed", len(releases))
	}
	history := must[[]release.Releaser](t)(action.NewHistory(h.config).Run(releaseName))
	if len(history) != 2 {
		t.Errorf("%d revisions", len(history))
	}
	values := must[map[string]any](t)(action.NewGetValues(h.config).Run(releaseName))
	if values["greeting"] != "hi" {
		t.Errorf("values %v", values)
	}
}

func helmTaken(t *testing.T, h *helm) {
	h.create(t, releaseName+"-config")
	install := action.NewInstall(h.config)
	install.ReleaseName, install.Namespace, install.WaitStrategy = releaseName, h.namespace, kube.HookOnlyStrategy
	if _, err := install.Run(h.chart, nil); err == nil {
		t.Error("an object of another owner was adopted")
	}
}
