package authn

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWebSocketToken(t *testing.T) {
	t.Parallel()
	encoded := func(token string) string {
		return tokenProtocol + base64.RawURLEncoding.EncodeToString([]byte(token))
	}
	for name, test := range map[string]struct {
		upgrade   string
		protocols []string
		want, err string
		left      []string // after RemoveCredentials
	}{
		"a token":                   {"websocket", []string{encoded("secret?>"), "v5.channel.k8s.io"}, "secret?>", "", []string{"v5.channel.k8s.io"}},
		"in one line":               {"WebSocket", []string{"a, " + encoded("secret") + " ,b"}, "secret", "", []string{"a, b"}},
		"none":                      {"websocket", []string{"a,b", "c"}, "", "", []string{"a,b", "c"}},
		"no WebSocket":              {"", []string{encoded("secret"), "a"}, "", "", []string{"a"}},
		"only a token":              {"websocket", []string{encoded("secret")}, "", "missing additional subprotocol", nil},
		"two":                       {"websocket", []string{encoded("secret"), "a", encoded("other")}, "", "multiple", []string{"a"}},
		"empty":                     {"websocket", []string{tokenProtocol, "a"}, "", "invalid", []string{"a"}},
		"not base64":                {"websocket", []string{tokenProtocol + "%%", "a"}, "", "invalid", []string{"a"}},
		"padded":                    {"websocket", []string{tokenProtocol + "YQ==", "a"}, "", "invalid", []string{"a"}},
		"not UTF-8":                 {"websocket", []string{encoded("\xff"), "a"}, "", "invalid", []string{"a"}},
		"the prefix without a name": {"websocket", []string{strings.TrimSuffix(tokenProtocol, "."), "a"}, "", "", []string{strings.TrimSuffix(tokenProtocol, "."), "a"}},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Basic x")
		for _, p := range test.protocols {
			r.Header.Add("Sec-WebSocket-Protocol", p)
		}
		r.Header.Set("Upgrade", test.upgrade)
		got, err := webSocketToken(r)
		if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: %q, %v; want %q, %q", name, got, err, test.want, test.err)
		}
		if err != nil && strings.Contains(err.Error(), "c2VjcmV0") {
			t.Errorf("%s: the error contains the token: %v", name, err)
		}
		RemoveCredentials(r.Header)
		if diff := cmp.Diff(test.left, r.Header["Sec-Websocket-Protocol"]); diff != "" || r.Header.Get("Authorization") != "" {
			t.Errorf("%s: remaining subprotocols (-want +got):\n%s", name, diff)
		}
	}
}
