# The app for compose.yaml; docs/deploying.md says how it is served.
FROM python:3.12-slim

WORKDIR /app
COPY requirements.txt ./
RUN pip install --no-cache-dir -r requirements.txt 'streamlit[auth]'
RUN useradd --uid 10001 --create-home oal && install --directory --owner oal --mode 700 /data
COPY . .

USER oal

ENV OAL_DB=/data/studio.db \
    STREAMLIT_SERVER_ADDRESS=0.0.0.0 \
    STREAMLIT_SERVER_ALLOWED_HOSTS="localhost 127.0.0.1" \
    MALLOC_ARENA_MAX=2
VOLUME /data
EXPOSE 8501
HEALTHCHECK --start-period=60s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8501/_stcore/health', timeout=10)"]
CMD ["streamlit", "run", "app.py"]
