// Command read-yaml reads streams of YAML and JSON from stdin, each after its length in four bytes, and prints for each one
// a line: a list of the values that kubectl reads, or `error:` and why it reads none.
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	streams "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

func main() {
	in, out := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	for {
		var length uint32
		if binary.Read(in, binary.BigEndian, &length) != nil {
			break
		}
		stream := make([]byte, length)
		if _, err := io.ReadFull(in, stream); err != nil {
			break
		}
		line, err := read(stream)
		if err != nil {
			line = fmt.Sprintf("error: %v", err)
		}
		fmt.Fprintln(out, strings.ReplaceAll(line, "\n", " "))
		// Whoever has sent no other stream waits for this one.
		if in.Buffered() == 0 {
			out.Flush()
		}
	}
	out.Flush()
}

// read returns the values of a stream, without those that are null, which kubectl skips.
func read(stream []byte) (line string, err error) {
	// The reader stops at some texts with a panic.
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("%v", reason)
		}
	}()
	next := documents(stream)
	var values []string
	for {
		value, err := next()
		if errors.Is(err, io.EOF) {
			return "[" + strings.Join(values, ",") + "]", nil
		}
		if err != nil {
			return "", err
		}
		if value = bytes.TrimSpace(value); len(value) > 0 && string(value) != "null" {
			values = append(values, string(value))
		}
	}
}

// documents returns the values of a stream one after the other, as JSON.
func documents(stream []byte) func() ([]byte, error) {
	if bytes.HasPrefix(bytes.TrimSpace(stream), []byte("{")) {
		decoder := streams.NewYAMLOrJSONDecoder(bytes.NewReader(stream), 4096)
		return func() ([]byte, error) {
			var text json.RawMessage
			if err := decoder.Decode(&text); err != nil {
				return nil, err
			}
			// As the API server reads it: without halves of surrogate pairs.
			var value any
			numbers := json.NewDecoder(bytes.NewReader(text))
			numbers.UseNumber()
			if err := numbers.Decode(&value); err != nil {
				return nil, err
			}
			return json.Marshal(value)
		}
	}
	// kubectl splits a stream into lines, and ends the last one, too.
	reader := streams.NewYAMLReader(bufio.NewReader(bytes.NewReader(stream)))
	return func() ([]byte, error) {
		document, err := reader.Read()
		if err != nil {
			return nil, err
		}
		return yaml.YAMLToJSON(document)
	}
}
