package host

import (
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/feature"
)

// Feature gates of /statusz and /flagz.
const (
	componentStatusz feature.Gate = "ComponentStatusz"
	componentFlagz   feature.Gate = "ComponentFlagz"
)

// zPage is a page about the server, as text for people and as an object of config.k8s.io for programs
// (KEP-4827, KEP-4828).
type zPage struct {
	kind   string
	text   func() string
	object func() map[string]any
}

// statusPage returns the page /statusz, with the versions, the start time, the uptime and the paths.
func (h *Host) statusPage(started time.Time, paths []string) zPage {
	version := strings.TrimPrefix(controlplane.KubernetesVersion(), "v")
	emulated := strings.TrimPrefix(h.config.ControlPlane.ServedVersion(), "v")
	emulated = emulated[:strings.LastIndexByte(emulated, '.')]
	return zPage{
		kind: "Statusz",
		text: func() string {
			up := time.Since(started)
			return fmt.Sprintf("\napiserver statusz\nWarning: this page is for people; its format may change.\n\nStarted  %s\nUp  %d hr %02d min %02d sec\nGo version  %s\nBinary version  %s\nEmulation version  %s\nPaths  %s\n",
				started.UTC().Format(time.UnixDate), int(up.Hours()), int(up.Minutes())%60, int(up.Seconds())%60,
				runtime.Version(), version, emulated, strings.Join(paths, " "))
		},
		object: func() map[string]any {
			return map[string]any{
				"startTime": started.UTC().Format(time.RFC3339), "uptimeSeconds": int64(time.Since(started).Seconds()),
				"goVersion": runtime.Version(), "binaryVersion": version, "emulationVersion": emulated, "paths": paths,
			}
		},
	}
}

// flagPage returns the page /flagz with the values of all flags.
func (h *Host) flagPage() zPage {
	return zPage{
		kind: "Flagz",
		text: func() string {
			var b strings.Builder
			b.WriteString("\napiserver flagz\nWarning: this page is for people; its format may change.\n\n")
			for _, name := range slices.Sorted(maps.Keys(h.config.Debug.Flags)) {
				fmt.Fprintf(&b, "%s=%s\n", name, h.config.Debug.Flags[name])
			}
			return b.String()
		},
		object: func() map[string]any { return map[string]any{"flags": h.config.Debug.Flags} },
	}
}

// zVersions returns the versions of the objects. The first version is the newest; the others are
// deprecated.
func zVersions() []string { return []string{"v1beta1", "v1alpha1"} }

// ServeHTTP implements http.Handler.
func (p zPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		writeFailure(w, r, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "the server does not allow this method on the requested resource")
		return
	}
	accepted := r.Header.Get("Accept")
	if accepted == "" {
		accepted = "text/plain"
	}
	for one := range strings.SplitSeq(accepted, ",") {
		media, params, err := mime.ParseMediaType(one)
		if err != nil {
			continue
		}
		switch media {
		case "text/plain", "text/*", "*/*":
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write([]byte(p.text())) // an error means that the client has disconnected
			return
		case "application/json", "application/yaml":
			if params["g"] == "config.k8s.io" && params["as"] == p.kind && slices.Contains(zVersions(), params["v"]) {
				p.writeObject(w, media, params["v"])
				return
			}
		}
	}
	writeFailure(w, r, http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"only the following media types are accepted: application/json, application/yaml, text/plain")
}

func writeFailure(w http.ResponseWriter, r *http.Request, code int32, reason metav1.StatusReason, message string) {
	endpoints.WriteStatus(w, r, &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message})
}

func (p zPage) writeObject(w http.ResponseWriter, media, version string) {
	object := p.object()
	object["kind"], object["apiVersion"] = p.kind, "config.k8s.io/"+version
	object["metadata"] = map[string]string{"name": "apiserver"}
	body, err := json.Marshal(object)
	if err == nil && media == "application/yaml" {
		body, err = yaml.JSONToYAML(body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if version != zVersions()[0] {
		w.Header().Set("Warning", fmt.Sprintf(`299 - "This version of the %s endpoint is deprecated. Please use a newer version."`, strings.ToLower(p.kind)))
	}
	w.Header().Set("Content-Type", fmt.Sprintf("%s;g=config.k8s.io;v=%s;as=%s", media, version, p.kind))
	_, _ = w.Write(body) // an error means that the client has disconnected
}
