mod tls;
