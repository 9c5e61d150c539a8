package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/admission/manifest"
	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/rest"
)

// reloadManifests is how often files are looked at.
const reloadManifests = 5 * time.Second

// manifests keep a plugin up to date with a directory of files.
type manifests struct {
	plugin  string
	dir     *manifest.Dir
	take    func([]codec.Object)
	metrics *manifestMetrics
	hash    string
	failing string // the error that was logged last
}

// manifestsOf returns the manifests of one of the resources that configure webhooks;
// nil where there is no directory of them.
func (i *instance) manifestsOf(plugin, dir, resource string, take func([]codec.Object)) *manifests {
	if dir == "" {
		return nil
	}
	r := i.static.Find(admissionregistrationv1.SchemeGroupVersion, resource, "")
	return &manifests{plugin: plugin, take: take, metrics: i.env.Metrics.Manifests, dir: &manifest.Dir{
		Path: dir, Version: r.Version, Check: func(obj codec.Object) error { return checkManifest(i.lifetime, r, obj) },
	}}
}

// checkManifest returns what is wrong with the configuration of webhooks of a file: what
// the API would refuse, and services, which the API has to be there for.
func checkManifest(ctx context.Context, r *rest.Resource, obj codec.Object) error {
	for name, client := range clientsOf(obj) {
		switch {
		case client.Service != nil:
			return fmt.Errorf("webhook %q: clientConfig.service is not supported for static manifests; use clientConfig.url instead", name)
		case client.URL == nil || *client.URL == "":
			return fmt.Errorf("webhook %q: clientConfig.url is required for static manifests", name)
		}
	}
	// As if it were created, under a name that the API lets it have.
	tried := obj.DeepCopyObject().(codec.Object)
	tried.SetName(strings.TrimSuffix(obj.GetName(), manifest.Suffix) + "." + uuid.NewString())
	_, err := r.Storage.(rest.Creater).Create(ctx, tried, nil, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

func clientsOf(obj codec.Object) map[string]admissionregistrationv1.WebhookClientConfig {
	clients := map[string]admissionregistrationv1.WebhookClientConfig{}
	switch c := obj.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for _, w := range c.Webhooks {
			clients[w.Name] = w.ClientConfig
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for _, w := range c.Webhooks {
			clients[w.Name] = w.ClientConfig
		}
	}
	return clients
}

// load takes up the files as they are, if they are others than before.
func (m *manifests) load() (changed bool, err error) {
	objects, hash, err := m.dir.Read()
	if err != nil {
		m.metrics.reloaded(m.plugin, false)
		return false, fmt.Errorf("%s: %w", m.plugin, err)
	}
	if hash == m.hash {
		return false, nil
	}
	m.hash = hash
	m.take(objects)
	m.metrics.reloaded(m.plugin, true)
	return true, nil
}

// keepUpWithManifests takes up changed files. What is wrong with them is logged once;
// what held before holds on.
func (i *instance) keepUpWithManifests(ctx context.Context) error {
	ticker := time.NewTicker(reloadManifests)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		for _, m := range i.webhooks.manifests {
			i.reload(m)
		}
	}
}

func (i *instance) reload(m *manifests) {
	changed, err := m.load()
	switch {
	case err != nil && err.Error() != m.failing:
		m.failing = err.Error()
		i.env.Logger.Error("manifests cannot be taken up; those before hold on", "plugin", m.plugin, "err", err)
	case err == nil && changed:
		i.env.Logger.Info("manifests were taken up", "plugin", m.plugin, "dir", m.dir.Path)
	}
	if err == nil {
		m.failing = ""
	}
}

// manifestMetrics are metrics of manifests, under kube-apiserver's names.
type manifestMetrics struct {
	total *prometheus.CounterVec
	last  *prometheus.GaugeVec
}

func newManifestMetrics(registerer prometheus.Registerer) (*manifestMetrics, error) {
	const prefix = "apiserver_manifest_admission_config_controller_"
	labels := []string{"status", "plugin"}
	m := &manifestMetrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "automatic_reloads_total", Help: "Total number of automatic reloads of admission manifest configuration split by status and plugin.",
		}, labels),
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "automatic_reload_last_timestamp_seconds", Help: "Timestamp of the last automatic reload of admission manifest configuration split by status and plugin.",
		}, labels),
	}
	if err := errors.Join(registerer.Register(m.total), registerer.Register(m.last)); err != nil {
		return nil, fmt.Errorf("register metrics of manifests: %w", err)
	}
	return m, nil
}

func (m *manifestMetrics) reloaded(plugin string, well bool) {
	status := "failure"
	if well {
		status = "success"
	}
	m.total.WithLabelValues(status, plugin).Inc()
	m.last.WithLabelValues(status, plugin).SetToCurrentTime()
}
