package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// manifestReloadInterval is the interval at which directories are read.
const manifestReloadInterval = 5 * time.Second

// manifestDirectory keeps the static configuration of a plugin up to date with the files in a
// directory.
type manifestDirectory struct {
	plugin  staticPlugin
	dir     *manifest.Dir
	metrics *manifestMetrics
	logger  *slog.Logger

	mu        sync.Mutex // held during a reload
	hash      string     // hash of the loaded files; guarded by mu
	lastError string     // the error that was logged last; guarded by mu
}

// staticPlugin is a plugin that can be configured in files.
type staticPlugin interface {
	Name() string
	SetStatic([]codec.Object)
}

// newManifestDirectory returns a directory whose files may contain objects of the given resources.
// It returns nil if path is "".
func newManifestDirectory(s *settings, builtin *builtinResources, plugin staticPlugin, path string, resources ...schema.GroupResource) *manifestDirectory {
	if path == "" {
		return nil
	}
	byKind, versions := map[string]*rest.Resource{}, make([]*codec.Version, len(resources))
	for n, resource := range resources {
		r := builtin.static.Find(admissionregistrationv1.SchemeGroupVersion, resource.Resource, "")
		byKind[r.Version.GVK.Kind], versions[n] = r, r.Version
	}
	return &manifestDirectory{plugin: plugin, metrics: s.env.Telemetry.Metrics.Admission.manifests, logger: s.env.Telemetry.Logger, dir: &manifest.Dir{
		Path: path, Versions: versions, CheckAll: checkBindings, Check: func(obj codec.Object) error {
			return checkManifest(s.lifetime, byKind[obj.GetObjectKind().GroupVersionKind().Kind], obj)
		},
	}}
}

// checkManifest validates an object in a file with the rules of the API, and rejects references to
// objects in the API.
func checkManifest(ctx context.Context, r *rest.Resource, obj codec.Object) error {
	if err := checkReferences(obj); err != nil {
		return err
	}
	// Validate the creation of the object. The API reserves the suffix of static manifests, so use
	// another, unique name.
	candidate := obj.DeepCopyObject().(codec.Object)
	candidate.SetName(strings.TrimSuffix(obj.GetName(), manifest.Suffix) + "." + uuid.NewString())
	_, err := r.Storage.(rest.Creater).Create(ctx, candidate, nil, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// checkReferences returns an error for a reference that an object in a file must not have.
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

// policyReferences returns the parameter kind of a policy, or the policy name and the parameter
// reference of a binding. policyName is nil if obj is not a binding.
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

// checkBindings returns an error if the policy of a binding is not in the files.
func checkBindings(all []codec.Object) error {
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

// load loads the files if they have changed, and reports whether they have. The caller must hold
// m.mu, or be the only user of m.
func (m *manifestDirectory) load() (changed bool, err error) {
	name := m.plugin.Name()
	objects, hash, err := m.dir.Read()
	if err != nil {
		m.metrics.reloaded(name, false)
		return false, fmt.Errorf("%s: %w", name, err)
	}
	if hash == m.hash {
		return false, nil
	}
	m.hash = hash
	m.plugin.SetStatic(objects)
	m.metrics.reloaded(name, true)
	m.metrics.applied(name, hash)
	return true, nil
}

// reload loads the files if they have changed. It does not log the same error twice in a row. After
// an error, the previous files stay in effect.
func (m *manifestDirectory) reload() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed, err := m.load()
	switch {
	case err != nil && err.Error() != m.lastError:
		m.lastError = err.Error()
		m.logger.Error("manifests could not be loaded; the previous ones remain in effect", "plugin", m.plugin.Name(), "err", err)
	case err == nil && changed:
		m.logger.Info("changed manifests were loaded", "plugin", m.plugin.Name(), "dir", m.dir.Path)
	}
	if err == nil {
		m.lastError = ""
	}
	return err
}

// manifestDirectories are the directories of all plugins.
type manifestDirectories []*manifestDirectory

// component returns the component that loads the directories. It does nothing if there are no
// directories.
func (d manifestDirectories) component() component {
	if len(d) == 0 {
		return component{name: admissionFiles}
	}
	return component{admissionFiles, d.load, d.run}
}

// load loads all files. If load returns an error, the control plane must not start.
func (d manifestDirectories) load(context.Context) error {
	for _, m := range d {
		if _, err := m.load(); err != nil {
			return err
		}
	}
	return nil
}

// run loads changed files until ctx ends.
func (d manifestDirectories) run(ctx context.Context) error {
	ticker := time.NewTicker(manifestReloadInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		for _, m := range d {
			_ = m.reload() // reload logs errors
		}
	}
}

// manifestMetrics are the metrics of manifests, with the names of kube-apiserver.
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

func (m *manifestMetrics) reloaded(plugin string, succeeded bool) {
	status := "failure"
	if succeeded {
		status = "success"
	}
	m.total.WithLabelValues(status, plugin).Inc()
	m.last.WithLabelValues(status, plugin).SetToCurrentTime()
}

// applied reports the hash of the loaded files.
func (m *manifestMetrics) applied(plugin, hash string) {
	m.info.DeletePartialMatch(prometheus.Labels{"plugin": plugin})
	m.info.WithLabelValues(plugin, hash).Set(1)
}
