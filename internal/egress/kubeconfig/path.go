package kubeconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// WithPath returns the text of a kubeconfig file with a path appended to the URLs of all servers. Relative file
// names are replaced with absolute names, so that the text can be written to another directory. It returns an
// error if the file is unreadable or is not YAML.
func WithPath(file, path string) ([]byte, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, fmt.Errorf("find the directory of the kubeconfig: %w", err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(raw, &config); err != nil {
		return nil, fmt.Errorf("read the kubeconfig %s: %w", file, err)
	}
	for _, cluster := range entriesOf(config, "clusters", "cluster") {
		server, _ := cluster["server"].(string)
		cluster["server"] = strings.TrimSuffix(server, "/") + path
		makeAbsolute(cluster, dir, "certificate-authority")
	}
	for _, user := range entriesOf(config, "users", "user") {
		makeAbsolute(user, dir, "client-certificate", "client-key", "tokenFile")
		if exec, ok := user["exec"].(map[string]any); ok {
			if command, _ := exec["command"].(string); strings.ContainsRune(command, filepath.Separator) {
				makeAbsolute(exec, dir, "command")
			}
		}
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("write the kubeconfig: %w", err)
	}
	return text, nil
}

// entriesOf returns the value of key in each entry of a list in a kubeconfig. It skips malformed entries,
// because the program that uses the kubeconfig reports them.
func entriesOf(config map[string]any, list, key string) []map[string]any {
	var values []map[string]any
	entries, _ := config[list].([]any)
	for _, entry := range entries {
		fields, _ := entry.(map[string]any)
		if value, ok := fields[key].(map[string]any); ok {
			values = append(values, value)
		}
	}
	return values
}

func makeAbsolute(fields map[string]any, dir string, keys ...string) {
	for _, key := range keys {
		if name, _ := fields[key].(string); name != "" && !filepath.IsAbs(name) {
			fields[key] = filepath.Join(dir, name)
		}
	}
}
