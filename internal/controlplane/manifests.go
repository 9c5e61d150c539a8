package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/admission/manifest"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// reloadManifests is how often files are looked at.
const reloadManifests = 5 * time.Second

// manifests keep a plugin up to date with a directory of files.
type manifests struct {
	plugin  string
	dir     *manifest.Dir
	take    func([]codec.Object)
	metrics *manifestMetrics

	mu      sync.Mutex // held during a reload; guards the following fields
	hash    string
	failing string // the error that was logged last
}

// staticPlugin is a plugin whose configuration can be in files.
type staticPlugin interface {
	Name() string
	SetStatic([]codec.Object)
}

// addManifests makes a plugin load the files of a directory with objects of some resources; ""
// disables it.
func (i *instance) addManifests(to staticPlugin, dir string, resources ...schema.GroupResource) {
	if dir == "" {
		return
	}
	byKind, versions := map[string]*rest.Resource{}, make([]*codec.Version, len(resources))
	for n, resource := range resources {
		r := i.static.Find(admissionregistrationv1.SchemeGroupVersion, resource.Resource, "")
		byKind[r.Version.GVK.Kind], versions[n] = r, r.Version
	}
	i.manifests = append(i.manifests, &manifests{plugin: to.Name(), take: to.SetStatic, metrics: i.env.Metrics.Manifests, dir: &manifest.Dir{
		Path: dir, Versions: versions, CheckAll: checkBound, Check: func(obj codec.Object) error {
			return checkManifest(i.lifetime, byKind[obj.GetObjectKind().GroupVersionKind().Kind], obj)
		},
	}})
}

// checkManifest validates an object of a file with the rules of the API, and rejects references to
// objects of the API.
func checkManifest(ctx context.Context, r *rest.Resource, obj codec.Object) error {
	if err := checkReferences(obj); err != nil {
		return err
	}
	// Validate a creation with a valid name.
	tried := obj.DeepCopyObject().(codec.Object)
	tried.SetName(strings.TrimSuffix(obj.GetName(), manifest.Suffix) + "." + uuid.NewString())
	_, err := r.Storage.(rest.Creater).Create(ctx, tried, nil, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// checkReferences returns which reference of an object a file may not have.
func checkReferences(obj codec.Object) error {
	for name, client := range clientsOf(obj) {
		switch {
		case client.Service != nil:
			return fmt.Errorf("webhook %q: clientConfig.service is not supported for static manifests; use clientConfig.url instead", name)
		case client.URL == nil || *client.URL == "":
			return fmt.Errorf("webhook %q: clientConfig.url is required for static manifests", name)
		}
	}
	policyName, kind, ref := policyReferences(obj)
	switch {
	case kind != nil:
		return errors.New("spec.paramKind is not supported for static manifests")
	case policyName == nil:
		return nil
	case *policyName == "":
		return errors.New("it must reference a policy (spec.policyName)")
	case !strings.HasSuffix(*policyName, manifest.Suffix):
		return fmt.Errorf("spec.policyName %q must end with %q", *policyName, manifest.Suffix)
	case ref != nil:
		return errors.New("spec.paramRef is not supported for static manifests")
	}
	return nil
}

// policyReferences are the parameters' kind of a policy; the policy and the parameters of a
// binding.
func policyReferences(obj codec.Object) (policyName *string, kind *admissionregistrationv1.ParamKind, ref *admissionregistrationv1.ParamRef) {
	switch o := obj.(type) {
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		return nil, o.Spec.ParamKind, nil
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		return nil, o.Spec.ParamKind, nil
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		return &o.Spec.PolicyName, nil, o.Spec.ParamRef
	case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		return &o.Spec.PolicyName, nil, o.Spec.ParamRef
	}
	return nil, nil, nil
}

// checkBound reports bindings without a policy in the files.
func checkBound(all []codec.Object) error {
	policies := map[string]bool{}
	for _, obj := range all {
		if bound, _, _ := policyReferences(obj); bound == nil {
			policies[obj.GetName()] = true
		}
	}
	for _, obj := range all {
		if bound, _, _ := policyReferences(obj); bound != nil && !policies[*bound] {
			return fmt.Errorf("binding %q references policy %q which does not exist in the manifest directory", obj.GetName(), *bound)
		}
	}
	return nil
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

// load loads changed files. m.mu must be held, unless reloading has not started.
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
	m.metrics.now(m.plugin, hash)
	return true, nil
}

// loadManifests loads the files of all plugins. An error stops the start.
func (i *instance) loadManifests() error {
	for _, m := range i.manifests {
		if _, err := m.load(); err != nil {
			return err
		}
	}
	return nil
}

// keepUpWithManifests loads changed files. Errors are logged once, and the previous files stay in
// effect.
func (i *instance) keepUpWithManifests(ctx context.Context) error {
	ticker := time.NewTicker(reloadManifests)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		for _, m := range i.manifests {
			_ = i.reload(m) // it is logged
		}
	}
}

func (i *instance) reload(m *manifests) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed, err := m.load()
	switch {
	case err != nil && err.Error() != m.failing:
		m.failing = err.Error()
		i.env.Logger.Error("manifests could not be loaded; the previous ones remain in effect", "plugin", m.plugin, "err", err)
	case err == nil && changed:
		i.env.Logger.Info("manifests were taken up", "plugin", m.plugin, "dir", m.dir.Path)
	}
	if err == nil {
		m.failing = ""
	}
	return err
}

// manifestMetrics are metrics of manifests, under kube-apiserver's names.
type manifestMetrics struct {
	total *prometheus.CounterVec
	last  *prometheus.GaugeVec
	info  *prometheus.GaugeVec
}

func newManifestMetrics(registerer prometheus.Registerer) (*manifestMetrics, error) {
	const prefix = "apiserver_manifest_admission_config_controller_"
	labels := []string{"status", "plugin"}
	m := &manifestMetrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "automatic_reloads_total", Help: "[ALPHA] Total number of automatic reloads of admission manifest configuration split by status, plugin, and apiserver identity.",
		}, labels),
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "automatic_reload_last_timestamp_seconds", Help: "[ALPHA] Timestamp of the last automatic reload of admission manifest configuration split by status, plugin, and apiserver identity.",
		}, labels),
	}
	m.info = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: prefix + "last_config_info", Help: "[ALPHA] Information about the last applied admission manifest configuration with hash as label, split by plugin and apiserver identity.",
	}, []string{"plugin", "hash"})
	if err := errors.Join(registerer.Register(m.total), registerer.Register(m.last), registerer.Register(m.info)); err != nil {
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

// now reports the loaded files by their hash.
func (m *manifestMetrics) now(plugin, hash string) {
	m.info.DeletePartialMatch(prometheus.Labels{"plugin": plugin})
	m.info.WithLabelValues(plugin, hash).Set(1)
}
