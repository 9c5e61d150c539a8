package selector

import (
	"fmt"
	"os"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// Names of networks.
const (
	controlPlane = "controlplane"
	etcd         = "etcd"
	cluster      = "cluster"
)

// Protocols for connections to proxies.
const (
	protocolDirect      = "Direct"
	protocolHTTPConnect = "HTTPConnect"
	protocolGRPC        = "GRPC"
)

// configuration is an EgressSelectorConfiguration. v1beta1 and v1alpha1 have the same fields.
type configuration struct {
	metav1.TypeMeta  `json:",inline"`
	EgressSelections []selection `json:"egressSelections"`
}

type selection struct {
	Name       string     `json:"name"`
	Connection connection `json:"connection"`
}

type connection struct {
	ProxyProtocol string     `json:"proxyProtocol,omitempty"`
	Transport     *transport `json:"transport,omitempty"`
}

type transport struct {
	TCP *tcpTransport `json:"tcp,omitempty"`
	UDS *udsTransport `json:"uds,omitempty"`
}

type tcpTransport struct {
	URL       string     `json:"url,omitempty"`
	TLSConfig *tlsConfig `json:"tlsConfig,omitempty"`
}

type udsTransport struct {
	UDSName string `json:"udsName,omitempty"`
}

// tlsConfig contains file names and the server name.
type tlsConfig struct {
	CABundle      string `json:"caBundle,omitempty"`
	ClientKey     string `json:"clientKey,omitempty"`
	ClientCert    string `json:"clientCert,omitempty"`
	TLSServerName string `json:"tlsServerName,omitempty"`
}

// parse decodes a configuration. It rejects unknown and duplicate fields.
func parse(data []byte) (*configuration, error) {
	c := &configuration{}
	if err := yaml.UnmarshalStrict(data, c); err != nil {
		return nil, err
	}
	if c.Kind != "EgressSelectorConfiguration" {
		return nil, fmt.Errorf("kind is %q; it must be EgressSelectorConfiguration", c.Kind)
	}
	switch c.APIVersion {
	case "apiserver.k8s.io/v1beta1":
	case "apiserver.k8s.io/v1alpha1":
		for i := range c.EgressSelections {
			if s := &c.EgressSelections[i]; s.Name == "master" { // v1alpha1 calls the network master
				s.Name = controlPlane
			}
		}
	default:
		return nil, fmt.Errorf("apiVersion is %q; it must be apiserver.k8s.io/v1beta1 or apiserver.k8s.io/v1alpha1", c.APIVersion)
	}
	return c, nil
}

// validate returns errors with kube-apiserver's messages and paths. The paths differ from the names of the
// fields in the configuration.
func (c *configuration) validate() field.ErrorList {
	at := field.NewPath("service", "connection")
	var errs field.ErrorList
	for i := range c.EgressSelections {
		errs = append(errs, c.EgressSelections[i].Connection.validate(at)...)
	}
	known := []string{cluster, controlPlane, etcd}
	seen := map[string]bool{}
	for i := range c.EgressSelections {
		name := strings.ToLower(c.EgressSelections[i].Name)
		switch {
		case seen[name]:
			errs = append(errs, field.Duplicate(at.Index(i), name))
		case !slices.Contains(known, name):
			errs = append(errs, field.NotSupported(at, name, known))
		}
		seen[name] = true
	}
	return errs
}

func (c *connection) validate(at *field.Path) field.ErrorList {
	switch c.ProxyProtocol {
	case protocolDirect:
		if c.Transport != nil {
			return field.ErrorList{field.Invalid(at.Child("transport"), "direct", "config must be absent for direct connect")}
		}
		return nil
	case protocolHTTPConnect, protocolGRPC:
		if c.Transport == nil {
			return field.ErrorList{field.Required(at.Child("transport"), "transport must be set for "+c.ProxyProtocol)}
		}
		if c.ProxyProtocol == protocolGRPC {
			return c.Transport.validateGRPC(at)
		}
		return c.Transport.validateHTTPConnect(at)
	}
	return field.ErrorList{field.NotSupported(at.Child("protocol"), c.ProxyProtocol, []string{protocolDirect, protocolHTTPConnect, protocolGRPC})}
}

func (t *transport) validateGRPC(at *field.Path) field.ErrorList {
	if t.UDS == nil {
		return field.ErrorList{field.Required(at.Child("uds"), "UDS must be set with GRPC")}
	}
	return t.UDS.validate(at)
}

func (t *transport) validateHTTPConnect(at *field.Path) field.ErrorList {
	switch {
	case t.TCP != nil && t.UDS != nil:
		return field.ErrorList{field.Invalid(at.Child("tcp"), t.TCP.URL, "TCP and UDS cannot both be set")}
	case t.TCP != nil:
		return t.TCP.validate(at)
	case t.UDS != nil:
		return t.UDS.validate(at)
	}
	return field.ErrorList{field.Required(at.Child("tcp"), "One of TCP or UDS must be set")}
}

func (t *udsTransport) validate(at *field.Path) field.ErrorList {
	if t.UDSName == "" {
		return field.ErrorList{field.Invalid(at.Child("udsName"), "nil", "must be present for UDS connections")}
	}
	return nil
}

func (t *tcpTransport) validate(at *field.Path) field.ErrorList {
	switch {
	case strings.HasPrefix(t.URL, "http://") && t.TLSConfig != nil:
		return field.ErrorList{field.Invalid(at.Child("tlsConfig"), "nil", "config must not be present when using HTTP")}
	case strings.HasPrefix(t.URL, "http://"):
		return nil
	case !strings.HasPrefix(t.URL, "https://"):
		return field.ErrorList{field.Invalid(at.Child("url"), t.URL, "supported connection protocols are http:// and https://")}
	case t.TLSConfig == nil:
		return field.ErrorList{field.Required(at.Child("tlsConfig"), "TLSConfig must be present when using HTTPS")}
	}
	return t.TLSConfig.validate(at.Child("tlsConfig"))
}

func (c *tlsConfig) validate(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.CABundle != "" && !fileExists(c.CABundle) {
		errs = append(errs, field.Invalid(at.Child("caBundle"), c.CABundle, "TLS config ca bundle does not exist"))
	}
	switch {
	case c.ClientCert == "":
		errs = append(errs, field.Invalid(at.Child("clientCert"), "nil", "Using TLS requires clientCert"))
	case !fileExists(c.ClientCert):
		errs = append(errs, field.Invalid(at.Child("clientCert"), c.ClientCert, "TLS client cert does not exist"))
	}
	switch {
	case c.ClientKey == "":
		errs = append(errs, field.Invalid(at.Child("clientKey"), "nil", "Using TLS requires requires clientKey"))
	case !fileExists(c.ClientKey):
		errs = append(errs, field.Invalid(at.Child("clientKey"), c.ClientKey, "TLS client key does not exist"))
	}
	return errs
}

func fileExists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
