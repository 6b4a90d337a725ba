# The README's first line in a container, on the CPU:
#   docker build -t t2t . && docker run --rm t2t
FROM python:3.12-slim
WORKDIR /t2t
COPY . .
# The README's line makes its virtual environment and installs; it runs here once for the image, trained and all.
RUN python3 tests/readme.py quickstart > /tmp/quickstart.sh && bash -euo pipefail /tmp/quickstart.sh
ENV PATH="/t2t/.venv/bin:$PATH"
CMD ["sh", "-c", "printf 'twenty-one cats\\nthe train leaves at half past six\\n' | t2t-decoder --output_dir=quickstart/run --decode_interactive"]
