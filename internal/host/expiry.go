package host

import (
	"crypto/tls"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// certificateExpiry is the metric mainstay_certificate_expiration_timestamp_seconds. Its values are read
// from the certificates on each collection.
type certificateExpiry struct {
	identity *identity
	desc     *prometheus.Desc
}

func newCertificateExpiry(identity *identity) prometheus.Collector {
	return &certificateExpiry{identity, prometheus.NewDesc("mainstay_certificate_expiration_timestamp_seconds",
		"Unix time at which a certificate of the server expires.", []string{"certificate"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *certificateExpiry) Describe(descs chan<- *prometheus.Desc) { descs <- c.desc }

// Collect implements prometheus.Collector.
func (c *certificateExpiry) Collect(metrics chan<- prometheus.Metric) {
	for name, expires := range c.identity.expiries() {
		metrics <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(expires.Unix()), name)
	}
}

// expiries returns the expiry times of the certificates that the server presents or signs with, keyed by
// their purpose.
func (i *identity) expiries() map[string]time.Time {
	times := map[string]time.Time{"authority": i.authority.NotAfter()}
	add := func(name string, cert *tls.Certificate, err error) {
		if err == nil && cert != nil && cert.Leaf != nil { // skip missing and unreadable certificates
			times[name] = cert.Leaf.NotAfter
		}
	}
	cert, err := i.serving.get(&tls.ClientHelloInfo{})
	add("serving", cert, err)
	for n := range i.serving.sni {
		sni := &i.serving.sni[n]
		add("serving "+strings.Join(sni.hosts(), ","), sni.file.get(), nil)
	}
	if i.frontProxy.certificate != nil {
		cert, err := i.frontProxy.certificate()
		add("front proxy client", cert, err)
	}
	if i.kubelet.client != nil {
		cert, err := i.kubelet.client()
		add("kubelet client", cert, err)
	}
	return times
}
