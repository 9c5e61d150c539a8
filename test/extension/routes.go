package extension

import (
	"encoding/json"
	"net/http"
	"strings"

	"golang.org/x/net/websocket"
)

// route serves the part of the Kubernetes API that the tests need.
func (s *Server) route(w http.ResponseWriter, r *http.Request, who *caller) {
	switch path := r.URL.Path; {
	case path == "/apis":
		s.discovery(w, r)
	case path == base:
		write(w, http.StatusOK, resourceList())
	case path == "/openapi/v3":
		write(w, http.StatusOK, object{"paths": object{strings.TrimPrefix(base, "/"): object{"serverRelativeURL": "/openapi/v3" + base + "?hash=ABCDEF"}}})
	case path == "/openapi/v3"+base:
		w.Header().Set("Etag", `"ABCDEF"`)
		write(w, http.StatusOK, documentV3())
	case path == "/openapi/v2":
		write(w, http.StatusOK, documentV2())
	case strings.HasPrefix(path, base+"/"):
		s.apples(w, r, who, strings.Split(strings.TrimPrefix(path, base+"/"), "/"))
	default:
		http.NotFound(w, r)
	}
}

// apples serves /apples and /namespaces/NS/apples[/NAME[/SUBRESOURCE]].
func (s *Server) apples(w http.ResponseWriter, r *http.Request, who *caller, parts []string) {
	namespace := ""
	if parts[0] == "namespaces" && len(parts) > 2 {
		namespace, parts = parts[1], parts[2:]
	}
	switch {
	case parts[0] != "apples":
		http.NotFound(w, r)
	case len(parts) == 1 && r.Method == http.MethodPost:
		s.create(w, r, namespace)
	case len(parts) == 1 && r.URL.Query().Has("watch"):
		s.watch(w, r)
	case len(parts) == 1:
		write(w, http.StatusOK, object{"kind": "AppleList", "apiVersion": Group + "/" + Version, "metadata": object{"resourceVersion": "1"}, "items": s.store.list()})
	case len(parts) == 3 && parts[2] == "whoami":
		write(w, http.StatusOK, object{"user": who.Name, "uid": who.UID, "groups": who.Groups, "extra": who.Extra, "headers": who.headers, "host": r.Host, "proto": r.Proto})
	case len(parts) == 3 && parts[2] == "echo":
		server := websocket.Server{Handler: echo, Handshake: func(*websocket.Config, *http.Request) error { return nil }}
		server.ServeHTTP(w, r)
	case len(parts) == 2:
		s.get(w, namespace, parts[1])
	default:
		http.NotFound(w, r)
	}
}

func echo(conn *websocket.Conn) {
	for {
		var text string
		if websocket.Message.Receive(conn, &text) != nil || websocket.Message.Send(conn, text) != nil {
			return
		}
	}
}

func (s *Server) get(w http.ResponseWriter, namespace, name string) {
	if apple := s.store.get(namespace, name); apple != nil {
		write(w, http.StatusOK, apple)
		return
	}
	write(w, http.StatusNotFound, object{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": http.StatusNotFound,
		"message": `apples.` + Group + ` "` + name + `" not found`, "details": object{"name": name, "group": Group, "kind": "apples"},
	})
}

func (s *Server) create(w http.ResponseWriter, r *http.Request, namespace string) {
	var apple object
	if err := json.NewDecoder(r.Body).Decode(&apple); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	created, ok := s.store.create(namespace, apple)
	if !ok {
		http.Error(w, "there is one already", http.StatusConflict)
		return
	}
	write(w, http.StatusCreated, created)
}

// watch sends each event as soon as it is stored.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	control := http.NewResponseController(w)
	_ = control.Flush()
	for sent := 0; ; {
		events, changed := s.store.since(sent)
		for _, event := range events {
			if json.NewEncoder(w).Encode(event) != nil || control.Flush() != nil {
				return
			}
			sent++
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may have disconnected
}

// writeBody encodes an object as JSON. The caller has set the Content-Type.
func writeBody(w http.ResponseWriter, body any) {
	_ = json.NewEncoder(w).Encode(body) // the client may have disconnected
}
