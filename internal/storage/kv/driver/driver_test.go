package driver

import (
	"errors"
	"strings"
	"testing"
)

// TestFind checks the selection of drivers by URL.
func TestFind(t *testing.T) {
	t.Parallel()
	errCheck := errors.New("checked")
	list := List{
		{Schemes: []string{"file"}, InDataDir: true},
		{Schemes: []string{"http", "https"}, Shared: true, Check: func(urls []string) error {
			if strings.HasSuffix(urls[0], "/bad") {
				return errCheck
			}
			return nil
		}},
	}
	tests := []struct {
		name, urls string
		scheme     string // of the driver
		want       string // part of the error
	}{
		{"one", "file:///data", "file", ""},
		{"a cluster", "https://10.0.0.1:1 https://10.0.0.2:1", "http", ""},
		{"schemes of one driver", "http://10.0.0.1:1 https://10.0.0.2:1", "http", ""},
		{"none", "", "", "the URL of the store is missing"},
		{"no scheme", "10.0.0.1:2379", "", `"10.0.0.1:2379" is not a URL`},
		{"a host name", "etcd", "", `"etcd" is not a URL`},
		{"unknown", "ftp://10.0.0.1", "", `there is no storage backend with the scheme "ftp"; the schemes are file, http, https`},
		{"two drivers", "http://10.0.0.1:1 file:///data", "", "http://10.0.0.1:1 and file:///data are URLs of different storage backends"},
		{"rejected by the driver", "http://10.0.0.1:1/bad", "", "checked"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, err := list.Find(strings.Fields(tt.urls))
			switch {
			case tt.want != "":
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error %v, want %q", err, tt.want)
				}
			case err != nil:
				t.Error(err)
			case d.Schemes[0] != tt.scheme:
				t.Errorf("driver of %v, want %s", d.Schemes, tt.scheme)
			}
		})
	}
}
