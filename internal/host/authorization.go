package host

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/egress/kubeconfig"
	"mainstay.dev/mainstay/internal/filters/authz"
	"mainstay.dev/mainstay/internal/filters/authz/abac"
	"mainstay.dev/mainstay/internal/filters/authz/webhook"
)

// AuthorizationFiles are the files by which requests are authorized, besides roles and
// bindings.
type AuthorizationFiles struct {
	// ConfigFile is an AuthorizationConfiguration, which replaces the modes and WebhookConfigFile;
	// "" without one.
	ConfigFile string
	// WebhookConfigFile is the kubeconfig of the webhook of the mode Webhook.
	WebhookConfigFile      string
	WebhookVersion         string        // "": v1beta1
	WebhookAuthorizedTTL   time.Duration // 0: 5m; negative: no cache
	WebhookUnauthorizedTTL time.Duration // 0: 30s; negative: no cache
	// PolicyFile has the policies of the mode ABAC.
	PolicyFile string
}

// Defaults of AuthorizationFiles, as kube-apiserver's.
const (
	DefaultAuthorizationWebhookVersion = "v1beta1"
	DefaultAuthorizedTTL               = authz.DefaultAuthorizedTTL
	DefaultUnauthorizedTTL             = authz.DefaultUnauthorizedTTL
)

func (f *AuthorizationFiles) setDefaults() {
	setDefault(&f.WebhookVersion, DefaultAuthorizationWebhookVersion)
	setDefault(&f.WebhookAuthorizedTTL, DefaultAuthorizedTTL)
	setDefault(&f.WebhookUnauthorizedTTL, DefaultUnauthorizedTTL)
}

// checkAuthorization validates the authorization flags.
func (c Config) checkAuthorization() error {
	f := &c.AuthorizationFiles
	var errs []error
	problem := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if f.ConfigFile != "" && (c.modesGiven || f.WebhookConfigFile != "") {
		problem("--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are defined")
	}
	if version := f.WebhookVersion; version != "v1" && version != "v1beta1" {
		problem("--authorization-webhook-version is %q; it must be v1 or v1beta1", version)
	}
	if f.ConfigFile != "" {
		return errors.Join(errs...)
	}
	for _, mode := range []struct{ name, flag, file string }{
		{authz.TypeABAC, "--authorization-policy-file", f.PolicyFile}, {authz.TypeWebhook, "--authorization-webhook-config-file", f.WebhookConfigFile},
	} {
		switch asked := slices.Contains(c.AuthorizationModes, mode.name); {
		case asked && mode.file == "":
			problem("--authorization-mode=%s needs %s", mode.name, mode.flag)
		case !asked && mode.file != "":
			problem("cannot specify %s without --authorization-mode=%s", mode.flag, mode.name)
		}
	}
	return errors.Join(errs...)
}

// openAuthorization reads the files of authorization. The configuration is followed when it
// changes; the others are read once, as by kube-apiserver.
func (h *Host) openAuthorization() error {
	f, opened := &h.config.AuthorizationFiles, &h.env.Authorization
	*opened = controlplane.Authorization{}
	if f.PolicyFile != "" {
		var err error
		if opened.Policies, err = readKeyFile("--authorization-policy-file", f.PolicyFile, abac.Parse); err != nil {
			return err
		}
	}
	if f.WebhookConfigFile != "" {
		client, url, err := kubeconfig.Client(f.WebhookConfigFile, h.egress.ControlPlane)
		if err != nil {
			return fmt.Errorf("--authorization-webhook-config-file: %w", err)
		}
		opened.Webhook = webhook.New(webhook.Config{
			Name: "default", Metrics: h.webhookMetrics, Client: client, URL: url, Timeout: authz.MaxWebhookTimeout, Version: f.WebhookVersion,
			AllowedTTL: f.WebhookAuthorizedTTL, OtherTTL: f.WebhookUnauthorizedTTL,
		})
	}
	if f.ConfigFile != "" {
		return h.openAuthorizationConfig(f.ConfigFile)
	}
	return nil
}

// openAuthorizationConfig follows the file. Authorizers that depend on objects of a control plane,
// or on another file, must be in it at startup.
func (h *Host) openAuthorizationConfig(file string) error {
	var current atomic.Pointer[[]authz.Listed]
	var first []authz.Listed
	h.env.Authorization.Configured = current.Load
	return h.reloader.add("--authorization-config", func(contents [][]byte) (err error) {
		if first != nil {
			defer func() { h.reloads.authorization.Reloaded(err) }()
		}
		configuration, err := authz.ParseConfiguration(contents[0])
		if err != nil {
			return err
		}
		list, err := configuration.Open(h.webhookMetrics, h.egress.ControlPlane)
		if err != nil {
			return err
		}
		if first == nil {
			first = list
		}
		if err := h.checkTypes(list, first); err != nil {
			return err
		}
		current.Store(&list)
		h.reloads.authorization.Applied(contents[0])
		return nil
	}, file)
}

// checkTypes rejects missing authorizers.
func (h *Host) checkTypes(list, first []authz.Listed) error {
	for _, l := range list {
		switch {
		case l.Type == authz.TypeABAC && h.env.Authorization.Policies == nil:
			return errors.New("authorizer type ABAC needs --authorization-policy-file")
		case l.Authorizer == nil && !slices.ContainsFunc(first, func(had authz.Listed) bool { return had.Type == l.Type }):
			return fmt.Errorf("authorizer type %s is not allowed if it was not enabled at initial server startup", l.Type)
		}
	}
	return nil
}
